# Everything happens in this folder: the environment in .venv, the example's state in .run.
export PIP_CACHE_DIR := $(CURDIR)/.venv/pip-cache
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PYTHON ?= python3
BIN := .venv/bin
# Tests wait more than they work: more processes than processors.
WORKERS ?= 3

.PHONY: bench clean deb faults format help lint rpm run table test test-machine torture

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

run: .venv/installed ## apply the example, and show what was done
	@rm -rf .run
	$(BIN)/heat-config-apply --state-dir .run examples/hot/greeting.yaml
	@echo
	$(BIN)/heat-config-agent stack list --state-dir .run

test: .venv/tested .venv/tools ## run the whole test suite, the linters included
	$(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder $(ARGS)

bench: .venv/tested ## measure beside the programs that are replaced: ten minutes; ARGS=NAME for one scenario
	PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

faults: .venv/tested .venv/tools ## try all faults, and write what came of them into docs/faults.md
	$(BIN)/pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder -m fault
	$(BIN)/python tests/fault_table.py docs/faults.md

torture: .venv/tested .venv/tools ## the long form of the faults: FOR=600 seconds, SEED=… to repeat
	TORTURE_SECONDS=$(or $(FOR),600) TORTURE_SEED=$(SEED) $(BIN)/pytest -s --timeout 0 -m torture $(ARGS)

test-machine: .venv/tested .venv/tools ## bake images, boot them, cut a machine's power: half an hour
	PYTHON=$(PYTHON) tests/install-tools machine
	TEST_MACHINE=1 $(BIN)/pytest -s -m machine $(ARGS)

lint: .venv/tested ## ruff and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

deb: ## a Debian package, in dist/ (DIST=FOLDER)
	@packaging/build deb $(or $(DIST),dist)

rpm: ## an RPM package, in dist/ (DIST=FOLDER)
	@packaging/build rpm $(or $(DIST),dist)

format: .venv/tested ## put the code into its form
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

table: .venv/installed ## the table of tools in docs/deployments.md, made anew from the code
	$(BIN)/python -m heat_config_hooks.table docs/deployments.md

clean: ## remove what the others made
	rm -rf .venv .run dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --editable .
	@touch $@

.venv/tools: tests/install-tools .venv/installed
	PYTHON=$(PYTHON) tests/install-tools
	@touch $@

.venv/tested: pyproject.toml .venv/installed
	$(BIN)/pip install --quiet --editable '.[test]'
	@touch $@
