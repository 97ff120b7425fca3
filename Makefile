# Two commands for a newcomer, `make demo` and `make test`; each sets up everything it needs in .venv.
# `make help` lists all. Python 3.11 or later is looked for; PYTHON=… chooses one.

SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The demo's settings: make demo EXAMPLE=sums METHOD=ngram SAMPLING='--temperature 0'
# Sampled, so that draws, ratios and resamples are seen, of sums that follow a pattern without repeating each other.
EXAMPLE ?= sums-spoken
METHOD ?= draft
SAMPLING ?= --temperature 0.8 --seed 1
TRACE ?= demo.sv.jsonl

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	if $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$p; break; fi; done)

# All cores, four at most (each worker loads torch), with one thread of torch each: what a worker waits for, another does.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: help demo test check docs screenshots format clean

help:  ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 18

demo: $(VENV)/.demo  ## watch the embedded pair decode, every round (F: full speed); plain text without a terminal
	@if [ -t 0 ] && [ -t 1 ] && [ "$${TERM:-dumb}" != dumb ]; then \
		$(BIN)/specviz tui --method $(METHOD) --example $(EXAMPLE) $(SAMPLING) --record $(TRACE) --force; \
	else \
		$(BIN)/specviz run --method $(METHOD) --example $(EXAMPLE) $(SAMPLING) --record $(TRACE) --force --max-new-tokens 64 \
			--rounds 2>&1; \
	fi
	@echo 'look at it again: $(BIN)/specviz tui --replay $(TRACE).gz    in numbers: $(BIN)/specviz stats $(TRACE).gz'

test: $(VENV)/.dev  ## all tests
	$(PYTEST)

check: $(VENV)/.dev docs  ## format, lint, types, import contracts, documents, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)

docs: $(VENV)/.docs  ## the documents as a site in build/site; a dead link fails
	@# --quiet would hide warnings from --strict too
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'open build/site/index.html'

format: $(VENV)/.dev  ## let ruff put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: $(VENV)/.dev  ## take the pictures of the documents again (needs chromium)
	$(BIN)/python -m tools.screenshots $(SCREENSHOTS)

clean:  ## remove the environment and all caches
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# A stamp is as old as the last install; a changed pyproject.toml or pin makes it stale.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing specviz with the extras engine and tui into $(VENV) (once; torch takes its time)"
	@$(PIP) --editable '.[engine,tui]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing specviz with the extra dev into $(VENV) (once; torch takes its time)"
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.docs

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing specviz with the extra docs into $(VENV) (once)"
	@$(PIP) --editable '.[docs]'
	@touch $@

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "specviz needs Python 3.11 or later, found: $$(python3 -V 2>&1 || echo none); name one with make PYTHON=…" >&2; exit 1; \
	fi
	@$(PYTHON) -c '$(NEW_ENOUGH)' || { echo "$(PYTHON) is older than Python 3.11, which specviz needs" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; Debian and Ubuntu have it in the package python3-venv" >&2; exit 1; }
