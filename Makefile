# The project's commands. `make help` lists them; README.md says when to use which.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

export MORIIO_CACHE ?= $(HOME)/.cache/moriio-operator
export PYTHONPATH := $(CURDIR)/tests:$(CURDIR)/operator
export PYTHONDONTWRITEBYTECODE := 1
# Where iptables and similar commands are; not in every root's PATH.
export PATH := $(PATH):/usr/sbin:/sbin

REQUIREMENTS := operator/requirements
# The environment's folder is named after a hash of its locks, so a changed lock creates a new one.
DEV := $(MORIIO_CACHE)/dev-$(shell cat $(REQUIREMENTS)/bootstrap.lock $(REQUIREMENTS)/dev.lock | sha256sum | cut -c1-12)
BIN := $(DEV)/bin
CONFIG := operator/pyproject.toml
PYTEST := $(BIN)/pytest -c $(CONFIG) --rootdir=. -p no:cacheprovider
# Our own Python code.
SOURCES := operator/moriio_operator tests images

##@ Try it
.PHONY: demo demo-down
demo: env tools ## Bring up a cluster, serve prompts over two nodes, prove that the KV cache crossed nodes
	@$(BIN)/python -m demo up
demo-down: env ## Remove the demo's cluster
	@$(BIN)/python -m demo down

##@ Check and test
.PHONY: check lint types imports unit fresh test test-long
check: env ## Lint, types, imports, generated files, unit tests: under a minute
	@$(MAKE) --jobs=2 --output-sync=target types unit lint imports fresh

lint: env
	@$(BIN)/ruff check --quiet --config $(CONFIG) $(SOURCES)
	@$(BIN)/ruff format --quiet --check --config $(CONFIG) $(SOURCES)

types: env
	@$(BIN)/mypy --config-file $(CONFIG) --no-error-summary operator/moriio_operator tests

imports: env
	@cd operator && $(BIN)/lint-imports --no-cache > /dev/null || $(BIN)/lint-imports --no-cache

fresh: env
	@$(BIN)/python -m generate --check

# Coverage is measured for the pure packages: their own tests must run at least 95 % of their lines. All
# other tests run in parallel.
PURE := admission api build facts observe plan report stack
unit: env
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	$(PYTEST) -q tests/unit $(foreach part,$(PURE),--ignore-glob='*/test_$(part)_*.py') > "$$folder/others" 2>&1 & others=$$!; \
	export COVERAGE_FILE="$$folder/coverage"; failed=0; \
	$(BIN)/coverage run --rcfile=$(CONFIG) $(BIN)/pytest -c $(CONFIG) --rootdir=. -p no:cacheprovider -q \
	    $(foreach part,$(PURE),tests/unit/test_$(part)_*.py) || failed=1; \
	$(BIN)/coverage report --rcfile=$(CONFIG) || failed=1; \
	wait $$others || failed=1; \
	cat "$$folder/others"; exit $$failed

test: env tools ## All tests, on a real cluster that comes up by itself (needs root)
	@$(PYTEST) --side-by-side $(PYTEST_FLAGS) tests

# `make test` has a short form of each.
test-long: env tools ## What is long by nature: five minutes of churn, ten times the random examples
	@CHURN_SECONDS=$${CHURN_SECONDS:-300} $(PYTEST) -s $(PYTEST_FLAGS) tests/cluster/apiserver/test_host_churn.py
	@MORIIO_TEST_EXAMPLES=10 MORIIO_TEST_BUDGET_FACTOR=10 $(PYTEST) $(PYTEST_FLAGS) tests/unit

.PHONY: oracle-latest oracle-pin
oracle-latest: env ## Compare the compatibility tables with the newest published vLLM; print the differences
	@$(BIN)/python -m oracle latest

oracle-pin: env ## Print a release's line for tests/oracle/sources.lock: make oracle-pin VERSION=0.34.0
	@$(BIN)/python -m oracle pin $(VERSION)

.PHONY: bench bench-allocator
bench: env tools ## Measure the operator against a bare client; write docs/performance.md
	@$(BIN)/python -m bench $(ARGS)

bench-allocator: env ## Measure the port allocator alone: 1,000 engines
	@$(BIN)/python -m bench.allocator

##@ Work with it
.PHONY: generate bed-up bed-down kubectl images env tools
generate: env ## Write the generated files: CRDs, pages on fields, conditions and versions, the chart's README and schema
	@$(BIN)/python -m generate

bed-up: env tools ## Bring up the test cluster only
	@$(BIN)/python -m bed up

wreckage: env
	@$(BIN)/python -m bed down --wreckage-only

bed-down: env ## Remove the test cluster, whatever state it is in
	@$(BIN)/python -m bed down

images: env tools ## Build all images, or those named in ARGS, and print their paths
	@$(BIN)/python -m bed images $(ARGS)

kubectl: env ## Run kubectl on the running cluster: make kubectl ARGS='get pods -A'
	@$(BIN)/python -m bed kubectl $(ARGS)

env: $(DEV)/complete

$(DEV)/complete:
	@echo "== Python environment for development: $(DEV)"
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is older than 3.11"; exit 1; }
	@python3 -c 'import ensurepip' 2> /dev/null || { apt-get update -qq && apt-get install -qqy python3-venv; }
	@rm -rf $(DEV) && python3 -m venv $(DEV)
	@$(BIN)/pip install --quiet --require-hashes -r $(REQUIREMENTS)/bootstrap.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode --require-hashes -r $(REQUIREMENTS)/dev.lock
	@touch $@

tools: env ## Install and build the programs of the test cluster, into the cache
	@$(BIN)/python -m bed tools

lock: env ## Update the hashed locks of the operator's requirements
	@cd $(REQUIREMENTS) && for part in bootstrap runtime dev; do \
	  $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header \
	    --python-version 3.11 $$part.in -o $$part.lock; done

.PHONY: help lock
help: ## List the commands
	@awk -F ':.*## ' '/^##@/ {print "\n" substr($$0, 5)} /^[a-z][a-z -]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
