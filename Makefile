# Everything sets itself up in .venv; the stamps in it say what is there, so that a second run
# needs no network. `make demo` and `make test` are all a newcomer needs.

PYTHON ?= python3
WORKERS ?= 2
ROUNDS ?= 5
ONLY ?=

VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
PYTEST := $(RUN) -m pytest -n $(WORKERS)
BENCH := .bench-venv

CORE := $(VENV)/.has-core
TESTS := $(VENV)/.has-tests
CHECKS := $(VENV)/.has-checks
PEER := $(BENCH)/.has-peer

.PHONY: help demo test test-slow lint types bench clean
.DEFAULT_GOAL := demo

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*  ## ' Makefile | sed 's/:.*  ## /: /'

demo: $(CORE)  ## an essay is written, killed half-way, resumed, approved
	@$(RUN) examples/essay/demo.py

test: $(TESTS)  ## all quick tests, then once more without langchain_core
	$(PYTEST) -m "not slow"
	PERDURE_TEST_WITHOUT_LANGCHAIN=1 $(PYTEST) -m "not slow"

test-slow: $(TESTS)  ## the tests that take long: many kills, long threads
	$(PYTEST) -m slow

lint: $(CHECKS)
	$(RUN) -m ruff check src tests benchmarks examples

types: $(CHECKS)
	$(RUN) -m mypy
	$(RUN) -m pyright

bench: $(PEER)  ## the same programs here and on LangGraph, with ratios
	$(BENCH)/bin/python benchmarks/run.py --rounds $(ROUNDS) --only "$(ONLY)"

clean:
	rm -rf $(VENV) $(BENCH) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples -name __pycache__ -prune -exec rm -rf {} +

# $(call new-venv,FOLDER): a fresh environment; an interpreter that is too old is refused by name.
define new-venv
@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("perdure needs Python 3.11 or newer, and $(PYTHON) is %d.%d: make PYTHON=python3.12 ..." % sys.version_info[:2])'
@echo "setting up $(1)"
@$(PYTHON) -m venv $(1)
endef

$(CORE): pyproject.toml
	$(call new-venv,$(VENV))
	@$(PIP) -e .
	@touch $@

$(TESTS): requirements-test.txt $(CORE)
	@$(PIP) -r requirements-test.txt
	@touch $@

$(CHECKS): requirements-dev.txt $(TESTS)
	@$(PIP) -r requirements-dev.txt
	@touch $@

$(PEER): benchmarks/requirements.txt pyproject.toml
	$(call new-venv,$(BENCH))
	@$(PIP:$(RUN)%=$(BENCH)/bin/python%) -r benchmarks/requirements.txt -e .
	@touch $@
