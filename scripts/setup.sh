#!/usr/bin/env bash
# Makes .venv in the checkout: every pinned package, then reshape itself in editable form.
# The stamp is written last, so an interrupted setup is repeated by the next call.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly venv=.venv stamp=.venv/.setup-stamp

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: error: %s\n' "$*" >&2; exit 1; }

# Two `make` calls at once would install into the same directory; the second waits and then finds the work done.
if command -v flock >/dev/null; then
    exec 9<scripts/setup.sh
    flock -n 9 || { say "another setup is running; waiting up to 15 minutes for it"; flock -w 900 9 || die "the other setup still runs after 15 minutes"; }
fi

fresh() {
    [[ -e $stamp ]] || return 1
    local input
    for input in pyproject.toml requirements/build.lock requirements/dev.lock scripts/setup.sh; do
        [[ $stamp -nt $input ]] || return 1
    done
}
if fresh; then exit 0; fi

runs() { command -v "$1" >/dev/null && "$1" -c "import sys; sys.exit(not ($2))" 2>/dev/null; }

# The machine's own python3 comes first: it is the one that its owner set up. Versions outside the tested range are taken
# only when there is nothing else.
find_python() {
    local wanted candidate
    for wanted in "(3, 11) <= sys.version_info < (3, 14) and __import__('ensurepip')" \
        "(3, 11) <= sys.version_info < (3, 14)" "(3, 11) <= sys.version_info"; do
        for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
            if runs "$candidate" "$wanted"; then
                "$candidate" -c 'import sys; print(sys.executable)'
                return
            fi
        done
    done
    return 1
}

# Another apt-get, as of the system's own upgrades, may hold the lock for minutes.
apt_install() {
    local -r install=(apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=600 "$1")
    export DEBIAN_FRONTEND=noninteractive
    "${install[@]}" >/dev/null 2>&1 || { apt-get update -qq && "${install[@]}" >/dev/null; }
}

# Debian ships venv's pip apart from Python.
add_venv_module() {
    local package
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv"
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        die "$python cannot make virtual environments (no module ensurepip)." \
            "Install it, on Debian and Ubuntu: sudo apt-get install $package"
    fi
    say "installing $package"
    apt_install "$package" || die "apt-get could not install $package; install it by hand and call make again"
}

python=$(find_python) || die "no Python 3.11 or newer found (tried ${PYTHON:-python3, python3.13, python3.12, python3.11})." \
    "Install one, or name it: make setup PYTHON=/path/to/python3"

if ! "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    runs "$python" "__import__('ensurepip')" || add_venv_module
    say "making $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
rm -f "$stamp"

pip_install() { "$venv/bin/python" -m pip install -qq --disable-pip-version-check "$@"; }
# Without compiled modules every Python process would compile pandas anew: 2 s of it, in each of Spark's workers.
uv_install() { "$venv/bin/uv" pip install -q --compile-bytecode --python "$venv/bin/python" "$@"; }
# The machine's own certificates, where it has any: they include those of a company's proxy.
if [[ -e /etc/ssl/certs/ca-certificates.crt ]]; then export UV_SYSTEM_CERTS=1; fi
# uv is three times as fast but does not read pip's settings, so it is not asked where those name another index.
pip_has_own_index() { "$venv/bin/python" -m pip config list 2>/dev/null | grep -Eq '\.(index-url|no-index|proxy)='; }

say "installing the pinned packages (about 750 MB to fetch the first time)"
pip_install --require-hashes -r requirements/build.lock
readonly pinned=(--require-hashes --no-build-isolation -r requirements/dev.lock)
if pip_has_own_index; then
    pip_install "${pinned[@]}"
elif ! uv_install "${pinned[@]}"; then
    say "uv did not manage; trying pip"
    pip_install "${pinned[@]}"
fi
pip_install --no-deps --no-build-isolation -e .

# The tests of the live page drive a browser. Nothing else needs it, so its absence is no error here.
add_browser() {
    local browser
    for browser in chromium chromium-browser google-chrome; do
        if command -v "$browser" >/dev/null; then return; fi
    done
    if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
        say "no Chromium here: the browser tests of the live page will be left out (on Debian: sudo apt-get install chromium)"
        return
    fi
    say "installing chromium, for the browser tests of the live page"
    apt_install chromium || say "apt-get could not install chromium; install it by hand to run the browser tests"
}
add_browser

# Tests on several machines make them of network namespaces, which only root can.
add_iproute() {
    if command -v ip >/dev/null || [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then return; fi
    say "installing iproute2, for the tests on several machines"
    apt_install iproute2 || say "apt-get could not install iproute2; install it by hand to run the tests on several machines"
}
add_iproute

touch "$stamp"
say "done; the command is $venv/bin/reshape"
