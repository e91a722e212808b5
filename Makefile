.DEFAULT_GOAL := help
.PHONY: setup demo check test lint quick-tests format bench docs wheel lock clean help

# Where this is set, each of hundreds of processes compiles all that it imports, and the tests, anew.
unexport PYTHONDONTWRITEBYTECODE

STAMP := .venv/.setup-stamp
BENCHMARKS := $(sort $(filter-out benchmarks/_%,$(wildcard benchmarks/*.py)))

setup: $(STAMP)  ## make .venv with everything in it
	@echo "setup: .venv is ready"

$(STAMP): pyproject.toml requirements/build.lock requirements/dev.lock scripts/setup.sh
	@scripts/setup.sh

demo: $(STAMP)  ## show what reshape does
	@.venv/bin/reshape demo

# Side by side: type checks take one core while tests wait for each other.
check: $(STAMP)  ## lint, type checks and the tests that need no JVM, on all cores
	@$(MAKE) --no-print-directory -j 2 lint quick-tests

# Two processes a core: flows by threads, the browser and time limits make tests wait. Each takes a part of the list
# as it stands, so that tests which share what is costly to make mostly meet, and from the others when it is through.
quick-tests: $(STAMP)
	@.venv/bin/python -m pytest -q -n $$((2 * $$(nproc))) --dist worksteal -m "not jvm"

# Two processes with a session each: on Spark most tests wait most of the time. A file stays in one of them, in the
# order of the folders, where the longest come before the many short ones.
test: check  ## all of that, and the tests on Spark
	@.venv/bin/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder -m jvm

lint: $(STAMP)  ## style and strict type checks
	@.venv/bin/ruff check --quiet .
	@.venv/bin/ruff format --quiet --check . || { echo "run: make format"; exit 1; }
	@.venv/bin/mypy --no-error-summary
	@echo "lint: ok"

format: $(STAMP)  ## mend what can be mended by itself
	@.venv/bin/ruff check --quiet --fix-only .
	@.venv/bin/ruff format .

bench: $(STAMP)  ## every benchmark, in its quick form
	@set -e; for script in $(BENCHMARKS); do echo "== $$script"; .venv/bin/python $$script --quick; done

docs: $(STAMP)  ## the documentation site, in build/site
	@.venv/bin/python scripts/reference.py
	@.venv/bin/zensical build --strict --clean

wheel: $(STAMP)  ## the package to install elsewhere, in dist
	@.venv/bin/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/reshape-*.whl

lock: $(STAMP)  ## pin the newest allowed version of every package
	@scripts/lock.sh

clean:  ## remove .venv and everything generated
	@rm -rf .venv build dist .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis src/*.egg-info spark-warehouse
	@find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help:  ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
