# `make demo` and `make test` need nothing but Python 3.11 or newer and make: each sets up what it uses.
# `make test PYTHON=python3.13` does so with that Python, in a virtual environment of its own.
SHELL := /bin/bash
PYTHON ?=
VENV := .venv$(if $(PYTHON),-$(notdir $(PYTHON)))

.PHONY: demo test check coverage bench chaos dist docs format screenshots servers clean

demo: $(VENV)/.package
	$(VENV)/bin/headrace demo

test: $(VENV)/.tools servers
	$(VENV)/bin/python -m pytest -n 4 --dist worksteal

check: $(VENV)/.tools
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/python -m pytest -n 2 tests/core --cov=headrace.core --cov-report=term:skip-covered --cov-fail-under=95
	$(MAKE) docs

# What the tests reach in this process, workers that they start left out. Python 3.12 or newer measures
# it at little cost: make coverage PYTHON=python3.13
coverage: $(VENV)/.tools servers
	COVERAGE_CORE=sysmon $(VENV)/bin/python -m pytest -n 3 --dist worksteal --cov=headrace --cov-report=term:skip-covered --cov-fail-under=90

bench: $(VENV)/.tools servers
	$(VENV)/bin/headrace bench --json bench/results.json

# Longer fault tests than `make test` has time for; minutes, not hours.
chaos: $(VENV)/.tools servers
	HEADRACE_CHAOS=1 $(VENV)/bin/python -m pytest -n 2 --dist worksteal tests/chaos

# The wheel and the source archive that are uploaded.
dist: $(VENV)/.tools
	rm -rf dist
	$(VENV)/bin/python -m build --no-isolation

# The documentation as a site, in site/. A broken link, or a page in no navigation, is an error.
docs: $(VENV)/.tools
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict

# The pictures of the dashboard and of the terminal view in docs/screenshots.
screenshots: $(VENV)/.tools servers
	$(VENV)/bin/python tools/screenshots

format: $(VENV)/.tools
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

$(VENV)/bin/python:
	PYTHON=$(PYTHON) tools/setup venv $(VENV)

$(VENV)/.package: pyproject.toml | $(VENV)/bin/python
	tools/setup package $(VENV)
	touch $@

$(VENV)/.tools: pyproject.toml | $(VENV)/bin/python
	tools/setup tools $(VENV)
	touch $@ $(VENV)/.package

servers:
	tools/setup servers

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build site
