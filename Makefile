# `make demo` and `make test` need nothing but Python 3.11 or newer and make: each sets up what it uses.
# `make test PYTHON=python3.13` does so with that Python, in a virtual environment of its own.
SHELL := /bin/bash
PYTHON ?=
OF_PYTHON := $(if $(PYTHON),-$(notdir $(PYTHON)))
VENV := .venv$(OF_PYTHON)
LOWEST := .venv-lowest$(OF_PYTHON)
BUILD := .venv-build$(OF_PYTHON)

# Half of a test process' time is waiting, so three of them share a core.
CORES := $(shell getconf _NPROCESSORS_ONLN)
PARALLEL := -n $(shell echo $$(( $(CORES) < 4 ? 3 * $(CORES) : 12 ))) --dist worksteal
# Files of tests are in memory, if there is room for them: they would wait for a disk all the time.
MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 { print "/dev/shm" }')
IN_MEMORY := $(if $(MEMORY),TMPDIR=$(MEMORY) )
PYTEST := $(IN_MEMORY)$(VENV)/bin/python -m pytest
# What to give pytest instead of all tests: make test ARGS="tests/worker -k pause"
ARGS ?=

# Each test process and each program that a test starts would compile the same modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast lowest audit check lint types cover coverage bench chaos conformance \
	dist docs format screenshots servers clean

help:  ## say what there is to make
	@printf 'make TARGET, or make TARGET PYTHON=python3.13 for another Python:\n\n'
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 14

demo: $(VENV)/.package  ## show Headrace at work, on the embedded store
	$(VENV)/bin/headrace demo

test: $(VENV)/.compiled servers  ## run the tests, or those of ARGS="tests/worker -k pause"
	$(PYTEST) $(or $(ARGS),$(PARALLEL))

test-fast: $(VENV)/.tools servers  ## run the tour: each feature once, on every store
	$(PYTEST) $(PARALLEL) tests/tour $(ARGS)

# The tour, and the parts that use a package of an extra. What an old version does that the newest of
# what it brings advises against is nothing that we can change: warnings are no errors.
lowest: $(LOWEST)/.tools servers  ## run the tests of what needs others, on their lowest versions
	$(IN_MEMORY)$(LOWEST)/bin/python -m pytest -W default $(or $(ARGS),$(PARALLEL) tests/tour \
		tests/exposition tests/integrations tests/metrics tests/outbox tests/top tests/web)

# Asks the package index, whose answer may be another one tomorrow; what it does not know is an error.
audit: $(LOWEST)/.tools  ## look for known holes in the lowest versions that are allowed
	$(LOWEST)/bin/python -m uv tool run pip-audit --strict --disable-pip --no-deps \
		--requirement $(LOWEST)/lowest.txt

check: lint types cover docs  ## see to format, lint, types, coverage of the core, the site

lint: $(VENV)/.tools  ## look for what ruff finds
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .

types: $(VENV)/.tools  ## check the types of source, tests and examples
	$(VENV)/bin/mypy

cover: $(VENV)/.tools  ## see that the tests of the core reach it
	$(PYTEST) -n 2 tests/core --cov=headrace.core --cov-report=term:skip-covered --cov-fail-under=95

# What the tests reach in this process, workers that they start left out. Python 3.12 or newer measures
# it at little cost: make coverage PYTHON=python3.13
coverage: $(VENV)/.tools servers  ## run the tests, and list the lines that none of them reaches
	COVERAGE_CORE=sysmon $(PYTEST) $(PARALLEL) --cov=headrace --cov-report=term:skip-covered --cov-fail-under=90

# Longer than a test of `make test` may take: minutes, not hours.
chaos: $(VENV)/.tools servers  ## run the fault tests for longer and harder, and what takes long
	HEADRACE_CHAOS=1 $(PYTEST) $(PARALLEL) -o faulthandler_timeout=600 tests/chaos tests/faults/test_odd_values.py $(ARGS)
	$(MAKE) lowest ARGS=

conformance: $(VENV)/.tools servers  ## run what `make test` leaves, such as a cluster, Valkey, memory
	HEADRACE_CONFORMANCE=1 $(PYTEST) $(PARALLEL) $(ARGS)

bench: $(VENV)/.tools servers  ## measure, into bench/results.json
	$(VENV)/bin/headrace bench --json bench/results.json

# The wheel and the source archive that are uploaded: no package that the lock does not name runs here.
dist: $(BUILD)/.locked  ## build the wheel and the source archive
	rm -rf dist
	$(BUILD)/bin/python -m build --no-isolation

# A broken link, or a page in no navigation, is an error.
docs: $(VENV)/.tools  ## build the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

screenshots: $(VENV)/.tools servers  ## make the pictures in docs/screenshots again
	$(VENV)/bin/python tools/screenshots

format: $(VENV)/.tools  ## format the code, and apply the fixes that ruff knows
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

$(VENV)/.package: pyproject.toml
	PYTHON=$(PYTHON) tools/setup package $(VENV)
	touch $@

# The tests' modules: else each test process would compile all of them at its first start.
$(VENV)/.compiled: $(VENV)/.tools
	for half in 'tests/[a-e]*/' 'tests/[f-z]*/'; do \
		$(PYTEST) --collect-only -qq $$half >/dev/null & \
	done; wait
	touch $@

$(VENV)/.tools: pyproject.toml
	PYTHON=$(PYTHON) tools/setup tools $(VENV)
	touch $@ $(VENV)/.package

$(LOWEST)/.tools: pyproject.toml
	PYTHON=$(PYTHON) tools/setup lowest $(LOWEST)
	touch $@

$(BUILD)/.locked: tools/build.lock
	rm -rf $(BUILD)
	PYTHON=$(PYTHON) tools/setup build $(BUILD)
	touch $@

servers:
	tools/setup servers

clean:  ## remove virtual environments, caches and builds
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build site
	find . -name __pycache__ -prune -exec rm -rf {} +
