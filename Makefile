# Every target makes or refreshes .venv first, and only when the pins changed: nothing to install by hand.
#   PYTHON  the interpreter to make it with (default: the first of python3, python3.11 ... that is new enough)
#   JOBS    test processes (default: one a core, at most 8)
#   ARGS    passed on to the command, as in: make test ARGS="-k posterior -x"

VENV := .venv
PY := $(VENV)/bin/python
JOBS ?= auto
ARGS ?=
# Tests and tools are single-threaded: the cores are shared out between the test processes.
PYTEST := OMP_NUM_THREADS=1 $(PY) -m pytest
SETUP := sh tools/setup.sh

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-distributed check format bench bench-quick clean setup-run setup-dev
MAKEFLAGS += --no-print-directory

help:  ## this list
	@echo "evigrad: evidence-weighted gradients for multi-modal learning"
	@echo
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

demo: setup-run  ## six methods on bundled digits, from nothing to a table (quicker: ARGS=--quick)
	$(PY) -m evigrad demo $(ARGS)

test: setup-dev  ## tests, docstrings, and every snippet of README and docs
	$(PYTEST) -n $(JOBS) --maxprocesses=8 -m "not slow and not distributed" $(ARGS)

test-slow: setup-dev  ## tests that take more than a few seconds each
	$(PYTEST) -n $(JOBS) --maxprocesses=8 -m "slow and not distributed" $(ARGS)

test-distributed: setup-dev  ## tests that start several processes
	$(PYTEST) -m distributed $(ARGS)

check: setup-dev  ## format, lint, types, import contract
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports

format: setup-dev  ## format the code and mend what lint can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: setup-dev  ## speed and memory, as JSON and as the tables of the docs
	$(PY) benchmarks/run.py $(ARGS)

bench-quick: setup-dev  ## that the benchmarks run at all
	$(PY) benchmarks/run.py --quick $(ARGS)

clean:  ## remove .venv, caches and build products (never runs/)
	rm -rf $(VENV) .venv.lock build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests tools examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

setup-run:
	@$(SETUP) run

setup-dev:
	@$(SETUP) dev
