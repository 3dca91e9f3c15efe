# Every command a contributor needs; CI runs `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo run fmt lint types imports test check bench docs lock

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

install: $(INSTALLED) ## Make the virtualenv and install everything from the lock

$(INSTALLED): .ci/dev.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r .ci/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: install ## Run the proxy in front of a built-in demo model
	$(BIN)/chat-proxy demo

run: install ## Run the proxy with the environment's settings and .env
	$(BIN)/chat-proxy serve

fmt: install ## Format the code and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install ## Check format and lints
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

imports: install ## Check that imports point downwards
	$(BIN)/lint-imports

types: install ## Check the types
	$(BIN)/mypy

test: install ## Run the tests with branch coverage
	$(BIN)/coverage erase
	$(BIN)/python -m pytest --cov --cov-report=term --numprocesses=auto --maxprocesses=4 --dist=loadfile $(ARGS)

check: lint imports types test ## Everything CI checks, fastest first

bench: install ## Measure against nginx and a bare relay (BENCH_PEERS=1: LiteLLM and Portkey too)
	$(BIN)/python -m bench $(ARGS)

docs: install ## Write README's generated tables anew
	$(BIN)/python docs/tables.py

lock: install ## Resolve the dependencies anew
	$(BIN)/python .ci/lock.py
