# Two commands for a newcomer, `make demo` and `make test`; each sets up everything it needs in .venv.
# `make help` lists all. Python 3.11 or later is looked for; PYTHON=… chooses one.

SHELL := /bin/sh
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The demo's settings: make demo METHOD=ngram PROMPT='Count to ten, twice.', or make demo EXAMPLE=sums METHOD=ngram
# TARGET answers PROMPT where it is stored, with itself in four bits as draft model: that needs nothing trained.
TARGET ?= smollm2
TARGET_METHOD ?= draft
TARGET_DRAFT ?= self:int4
PROMPT ?= Why is the sky blue?
# Otherwise, and for an EXAMPLE, the embedded pair goes on with an example. Sampled, so that draws, ratios and resamples
# are seen, of sums that follow a pattern without repeating each other.
EXAMPLE ?=
METHOD ?=
SAMPLING ?= --temperature 0.8 --seed 1
TRACE ?= demo.sv.jsonl
STORED := import sys; from specviz.local_models.store import stored_folder; sys.exit(stored_folder("$(TARGET)") is None)

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	if $$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1; then echo $$p; break; fi; done)

# A worker more than cores (tests/conftest.py), four at most (each loads torch), with one thread of torch each.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal

.PHONY: help demo test audit check gpu sanitize docs screenshots dist format clean

help:  ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1	/' | expand -t 18

demo: export PROMPT := $(PROMPT)
demo: $(VENV)/.demo  ## watch SmolLM2 answer, or the embedded pair decode (F: full speed); plain text without a terminal
	@if [ -z "$(EXAMPLE)" ] && $(BIN)/python -c '$(STORED)'; then \
		echo '$(TARGET) answers; make demo TARGET= shows the embedded pair' >&2; \
		set -- --target $(TARGET) --method $(or $(METHOD),$(TARGET_METHOD)) --draft $(TARGET_DRAFT) --prompt "$$PROMPT"; \
	else \
		if [ -z "$(EXAMPLE)$(filter-out smollm2,$(TARGET))" ]; then \
			echo 'the embedded pair decodes; $(BIN)/specviz models get smollm2 fetches a model that answers' >&2; fi; \
		set -- --method $(or $(METHOD),draft) --example $(or $(EXAMPLE),sums-spoken) $(SAMPLING); \
	fi; \
	if [ -t 0 ] && [ -t 1 ] && [ "$${TERM:-dumb}" != dumb ]; then \
		$(BIN)/specviz tui "$$@" --record $(TRACE) --force; \
	else \
		$(BIN)/specviz run "$$@" --record $(TRACE) --force --max-new-tokens 64 --rounds 2>&1; \
	fi
	@echo 'look at it again: $(BIN)/specviz tui --replay $(TRACE).gz    in numbers: $(BIN)/specviz stats $(TRACE).gz'

test: $(VENV)/.dev  ## all tests
	$(PYTEST)

audit: $(VENV)/.dev  ## every page and phase in a browser: accessibility, golden pictures (some minutes)
	$(PYTEST) -m audit

sanitize: $(VENV)/.dev  ## the kernel's tests with its C under sanitizers, by gcc and clang where they are here
	PYTHON=$(BIN)/python tools/sanitize.sh

gpu: $(VENV)/.dev  ## where there is a CUDA device: the tests marked cuda, and a short bench
	@PYTHON=$(BIN)/python tools/gpu.sh

check: $(VENV)/.dev docs sanitize  ## format, lint, types, import contracts, documents, sanitizers, all tests, audit
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST)
	$(PYTEST) -m audit

docs: $(VENV)/.docs  ## the documents as a site in build/site; a dead link fails
	@# --quiet would hide warnings from --strict too
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'open build/site/index.html'

format: $(VENV)/.dev  ## let ruff put the code in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

screenshots: $(VENV)/.dev  ## take the pictures of the documents again (needs chromium)
	$(BIN)/python -m tools.screenshots $(SCREENSHOTS)

dist: $(VENV)/.dev  ## both distributions into dist/, installed and used in fresh environments (some minutes)
	$(BIN)/python -m tools.dist $(DIST)

clean:  ## remove the environment and all caches
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# A stamp is as old as the last install; a changed pyproject.toml or pin makes it stale.
$(VENV)/.demo: pyproject.toml assets/smollm2/pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing specviz with the extras engine and tui into $(VENV) (once; torch takes its time)"
	@$(PIP) --editable '.[engine,tui]' --editable assets/smollm2
	@$(BIN)/specviz models get smollm2 >/dev/null || echo 'the demo goes on without SmolLM2' >&2
	@touch $@

$(VENV)/.dev: pyproject.toml assets/smollm2/pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing specviz with the extra dev into $(VENV) (once; torch takes its time)"
	@$(PIP) --editable '.[dev]' --editable assets/smollm2
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
