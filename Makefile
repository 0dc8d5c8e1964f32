# `make demo` and `make test` need nothing but Python 3.11 or newer and make: each sets up what it uses.
SHELL := /bin/bash
VENV := .venv
PYTHON := $(VENV)/bin/python

.PHONY: demo test check bench chaos format screenshots servers clean

demo: $(VENV)/.package
	$(VENV)/bin/headrace demo

test: $(VENV)/.tools servers
	$(PYTHON) -m pytest -n 3 --dist worksteal

check: $(VENV)/.tools
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

bench: $(VENV)/.tools servers
	$(VENV)/bin/headrace bench --json bench/results.json

# Longer fault tests than `make test` has time for; minutes, not hours.
chaos: $(VENV)/.tools servers
	HEADRACE_CHAOS=1 $(PYTHON) -m pytest tests/chaos

# The pictures of the dashboard and of the terminal view in docs/screenshots.
screenshots: $(VENV)/.tools servers
	$(PYTHON) tools/screenshots

format: $(VENV)/.tools
	$(VENV)/bin/ruff format .
	$(VENV)/bin/ruff check --fix .

$(VENV)/bin/python:
	tools/setup venv $(VENV)

$(VENV)/.package: pyproject.toml | $(VENV)/bin/python
	tools/setup package $(VENV)
	touch $@

$(VENV)/.tools: pyproject.toml | $(VENV)/bin/python
	tools/setup tools $(VENV)
	touch $@ $(VENV)/.package

servers:
	tools/setup servers

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis dist build
