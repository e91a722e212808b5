#!/usr/bin/env bash
# Pins every package, with hashes, for Python 3.11 and newer on any platform. The files name no index, so that each
# machine's own settings decide where packages come from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compile() {
    .venv/bin/uv pip compile --quiet --upgrade --generate-hashes --no-header --no-emit-index-url \
        --universal --fork-strategy fewest --python-version 3.11 "$@"
}

compile --group build --output-file requirements/build.lock
compile pyproject.toml --extra java --extra notebook --extra page --extra plot --extra tls --group dev --output-file requirements/dev.lock
