# Everything happens in this folder: the environment in .venv, the example's state in .run.
export PIP_CACHE_DIR := $(CURDIR)/.venv/pip-cache
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# What one process has compiled need not be compiled by the next.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
# Tests wait more than they work: more processes than processors.
WORKERS ?= 6
PYTEST := $(BIN)/pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

# The versions of what develops and tests the agent; what is installed with it is as new as there is.
INSTALL := $(BIN)/pip install --quiet --constraint packaging/constraints.txt --editable
# The places of the code, relative to site-packages: whatever the folder is called, Python reads it in every locale.
PLACES := for each in .venv/lib/python3*/site-packages/_heat_config_agent.pth; do \
	printf '../../../../%s\n' agent hooks >"$$each"; \
	done
# Programs and compiled modules are in .venv: without exec there is nothing to begin with.
MAY_RUN := mkdir -p .venv; printf '\#!/bin/sh\n' >.venv/may-run; chmod +x .venv/may-run; \
	if .venv/may-run 2>/dev/null; then rm .venv/may-run; else \
		rm .venv/may-run; rmdir .venv 2>/dev/null; \
		echo 'error: no program can run in this folder, which is mounted with noexec: clone into another one' >&2; exit 1; \
	fi
# What `make coverage` runs: the tests of single modules, and those of the commands as processes.
MEASURED ?= tests/unit tests/cli

.PHONY: bench clean coverage deb deb-bundled dist docs faults format gallery heat help image lint map reference release-check rpm rpm-bundled run table test test-agent test-all test-machine test-of tested-on torture

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):.*## /\1	/p' $(MAKEFILE_LIST) | expand -t 14

run: .venv/installed ## set up .venv, create a first stack, and show it
	@rm -rf .run
	$(BIN)/heat-config-apply --state-dir .run examples/hot/greeting.yaml
	@echo
	$(BIN)/heat-config-agent stack list --state-dir .run

heat: .venv/tested ## a real Heat on loopback to play with: docs/playground.md
	PYTHON=$(PYTHON) tests/install-tools heat
	PYTHONPATH=tests $(BIN)/python -m system.playground .heat

test: .venv/tested ## run the tests that need only .venv, ruff included: four minutes (ARGS=…)
	$(PYTEST) -m 'not slow' $(ARGS)

test-all: .venv/tested .venv/tools ## run all tests, with real tools, clouds and machines: half an hour (ARGS=…)
	$(PYTEST) -o testpaths=tests $(ARGS)

test-agent: .venv/tested ## run the tests of the agent and the hooks without the stack package (ARGS=…)
	$(BIN)/python tests/support/agent_alone.py -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(ARGS)

test-of: .venv/tested ## run the tests that concern a file (FILE=agent/… ARGS=…)
	@tests=$$($(BIN)/python tests/support/concerning.py $(FILE)) && echo "$$tests" | tr ' ' '\n' && \
		$(PYTEST) -o testpaths=tests $$tests $(ARGS)

map: .venv/tested ## record which tests concern which file, for test-of: long (ARGS=tests/…/test_….py)
	$(BIN)/python tests/support/concerning.py --record $(ARGS)

bench: .venv/tested ## measure, and write docs/evidence: ten minutes (ARGS=NAME)
	PYTHONPATH=tests $(BIN)/python -m bench $(ARGS)

faults: .venv/tested .venv/tools ## try all faults, and write docs/evidence/faults.md
	$(PYTEST) -o testpaths=tests -m fault
	$(BIN)/python tests/support/fault_table.py docs/evidence/faults.md

torture: .venv/tested .venv/tools ## long tests with kills and faults (FOR=600 seconds, SEED=…)
	TORTURE_SECONDS=$(or $(FOR),600) TORTURE_SEED=$(SEED) $(BIN)/pytest -s --timeout 0 -m torture $(or $(ARGS),tests/faults tests/fuzz)

test-machine: .venv/tested .venv/tools ## bake images, boot them, cut their power: half an hour
	PYTHON=$(PYTHON) tests/install-tools machine
	TEST_MACHINE=1 $(BIN)/pytest -s -o testpaths=tests -m machine $(ARGS)

tested-on: .venv/tested .venv/tools ## try all systems, Pythons and Heats: an hour or two
	PYTHON=$(PYTHON) tests/install-tools machine
	rm -f .tested-on.jsonl
	TEST_MACHINE=1 $(BIN)/pytest -s -m tested_on tests/tested_on
	PYTHONPATH=tests $(BIN)/python -m tested_on.write docs/evidence/tested-on.md

lint: .venv/tested ## ruff, mypy, and our own linters of pages, names and docstrings
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python tests/docs/prose.py

coverage: export COVERAGE_FILE := $(CURDIR)/.coverage
coverage: .venv/tested ## show what the tests of modules and commands cover
	$(BIN)/coverage erase
	@# What is measured loads the modules that measure it.
	$(BIN)/coverage run -m pytest -q -k 'not loads_next_to_nothing' $(MEASURED) $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report
	@for each in agent hooks; do \
		echo "$$each: $$($(BIN)/coverage report --include="$$each/*" --format=total) %"; \
	done

deb: ## the Debian packages for every release, in dist/ (DIST=…)
	@packaging/build deb $(or $(DIST),dist)

deb-bundled: ## one for this release, with its Python modules inside
	@packaging/build deb-bundled $(or $(DIST),dist)

rpm: ## the RPM packages for this release, in dist/ (DIST=…)
	@packaging/build rpm $(or $(DIST),dist)

rpm-bundled: ## one for this release, with its Python modules inside
	@packaging/build rpm-bundled $(or $(DIST),dist)

image: ## a container image of the Debian package, by podman (BASE=…)
	@set -e; folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
		packaging/build deb "$$folder"; rm -f "$$folder"/heat-config-agent-compat_*; \
		podman build $(if $(BASE),--build-arg BASE=$(BASE)) --file packaging/container/Containerfile --tag heat-config-agent "$$folder"

dist: ## wheels and a source distribution, in dist/ (DIST=…)
	@PYTHON=$(PYTHON) tests/install-tools dist
	.venv/dist/bin/python -m build --quiet --outdir $(or $(DIST),dist)
	.venv/dist/bin/python -m build --quiet --wheel --outdir $(or $(DIST),dist) packaging/compat
	.venv/dist/bin/twine check --strict $(or $(DIST),dist)/heat_config_agent*.whl $(or $(DIST),dist)/heat_config_agent-*.tar.gz

release-check: ## try what a release makes: packages, metadata, bill of materials (DIST=…)
	@packaging/release-check $(DIST)

format: .venv/tested ## format the code
	$(BIN)/ruff check --fix-only --quiet
	$(BIN)/ruff format

docs: .venv/site/installed ## build the documentation site, in build/site (SITE=…)
	.venv/site/bin/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --fresh-env \
		--conf-dir packaging/website --doctree-dir .venv/site/doctrees . $(or $(SITE),build/site)
	@echo 'open $(or $(SITE),build/site)/index.html'

reference: .venv/installed ## generate the reference pages, examples/agent.conf and the record of keys
	$(BIN)/python packaging/reference.py docs examples
	$(BIN)/python packaging/keys.py tests/samples/keys.txt

gallery: .venv/installed ## draw the pictures of the examples, and list the examples
	$(BIN)/python packaging/gallery.py examples

table: .venv/installed ## generate the tables of tools in docs/tools.md
	$(BIN)/python -m heat_config_hooks.table docs/tools.md

clean: ## remove what the other targets have made
	rm -rf .venv .run .heat .nox build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage .coverage.*

.venv/installed: pyproject.toml packaging/constraints.txt
	@$(MAY_RUN)
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	@$(PLACES)
	@touch $@

.venv/site/installed: packaging/website/requirements.txt | .venv/installed
	$(PYTHON) -m venv .venv/site
	.venv/site/bin/pip install --quiet --no-compile --requirement packaging/website/requirements.txt
	@touch $@

.venv/tools: tests/install-tools .venv/installed
	PYTHON=$(PYTHON) tests/install-tools
	@$(MAKE) .venv/site/installed || echo 'not installed, so tests are skipped: Sphinx'
	@touch $@

.venv/tested: pyproject.toml packaging/constraints.txt .venv/installed
	$(INSTALL) '.[test]' --no-compile
	@$(PLACES)
	@touch $@
