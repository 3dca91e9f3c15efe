# Every command a contributor needs; CI runs `make check`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# To run the proxy, the packages of the image are enough; contributors have them in .venv already.
RUN_VENV := $(if $(wildcard $(INSTALLED)),$(VENV),.venv-run)
RUN_INSTALLED := $(RUN_VENV)/.installed
RUN := PYTHONPATH=app $(RUN_VENV)/bin/python -m chat_proxy
# Tests start hundreds of processes, each of which would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# More than there may be cores: many tests wait for processes that they start.
PYTEST := $(BIN)/python -m pytest --numprocesses=4 --dist=loadfile

.DEFAULT_GOAL := help
.PHONY: help install servers demo run fmt lint types imports bandit audit quick test faults check
.PHONY: fuzz crosstalk soak malice
.PHONY: crowds mutation bench quality compat counts engine small-model docs site sbom lock trace windows

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-11s %s\n", $$1, $$2}'

install: $(INSTALLED) ## Make the virtualenv and install everything from the lock

NEEDS_PYTHON := import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed")
$(INSTALLED): .ci/dev.lock pyproject.toml
	$(PYTHON) -c '$(NEEDS_PYTHON)'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes --only-binary :all: -r .ci/dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	@touch $@

# uv installs in parallel, which takes a tenth of pip's time; where it cannot, pip does.
.venv-run/.installed: requirements.lock
	@$(PYTHON) -c '$(NEEDS_PYTHON)'
	@echo "Installing $$(grep -c == requirements.lock) packages into .venv-run; this is done once."
	@{ command -v uv > /dev/null && uv venv --quiet --clear --python "$$(command -v $(PYTHON))" .venv-run \
		&& uv pip install --python .venv-run --no-deps --require-hashes --only-binary :all: -r requirements.lock; } \
	|| { $(PYTHON) -m venv --clear .venv-run \
		&& .venv-run/bin/python -m pip install --no-deps --require-hashes --only-binary :all: -r requirements.lock; }
	@touch $@

servers: ## Install the servers and the browser that tests start, where they are missing
	bash .ci/servers

demo: $(RUN_INSTALLED) ## Run the proxy in front of a built-in demo model
	@$(RUN) demo $(ARGS)

run: $(RUN_INSTALLED) ## Run the proxy with the environment's settings and .env; ARGS: its flags
	@$(RUN) serve $(ARGS)

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

bandit: install ## Look for unsafe calls
	$(BIN)/bandit --quiet --configfile pyproject.toml --recursive app

audit: bandit ## Ask the advisory database about every locked dependency; says what it could reach
	$(BIN)/python .ci/audit.py

# What starts servers or processes of its own, or waits for timeouts, is left to `make test`.
SLOW := store/redis store/test_contract.py store/test_lease.py cli demo http/process http/server/test_slow_clients.py
quick: lint imports types ## Lints, layers, types, most unit tests: under a minute, for the inner loop
	$(PYTEST) --quiet $(SLOW:%=--ignore=tests/unit/%) tests/unit

test: install servers ## Run the tests with branch coverage
	$(BIN)/coverage erase
	$(PYTEST) --cov --cov-report=term $(ARGS)

RUNS ?= 3
faults: install servers ## Run the fault suite RUNS times, each time in another order
	for run in $$(seq $(RUNS)); do $(PYTEST) tests/faults || exit 1; done

check: lint imports types bandit site ## Everything CI checks, fastest first; the faults in random order
	$(MAKE) test ARGS=--ignore=tests/faults
	$(MAKE) faults RUNS=1

FUZZ_SECONDS ?= 300
fuzz: install ## Feed parsers with mutated input for FUZZ_SECONDS; by coverage where atheris installs
	@$(BIN)/python -m pip install --quiet --target .venv-fuzz atheris==3.0.0 || echo "unguided"
	PYTHONPATH=.venv-fuzz $(BIN)/python -m tools.fuzz --seconds $(FUZZ_SECONDS) $(ARGS)

CROSSTALK_SECONDS ?= 600
crosstalk: install ## Look for one client's bytes in another's answer for CROSSTALK_SECONDS
	$(BIN)/python -m tools.crosstalk --seconds $(CROSSTALK_SECONDS) $(ARGS)

SOAK_MINUTES ?= 10
soak: install ## Run for SOAK_MINUTES under load and faults; fail when anything grows
	$(BIN)/python -m tools.soak --minutes $(SOAK_MINUTES) $(ARGS)

MALICE_SECONDS ?= 120
malice: install ## Run a malicious tenant beside a polite one; fail if that one waits or loses answers
	$(BIN)/python -m tools.malice --seconds $(MALICE_SECONDS)

crowds: install ## Measure aborts, open streams and idle connections by the thousand
	$(BIN)/python -m tools.crowds.run

mutation: install ## Change compaction/, chat/, wires/ and recognition at random, and see whether a test notices
	$(BIN)/python -m tools.mutation.run $(ARGS)

compat: install ## Drive real clients and agents through the proxy; writes docs/clients.md
	$(BIN)/python -m tools.compat $(ARGS)

engine: install ## Run vLLM and llama.cpp behind the proxy, by all three APIs; writes docs/engine.md
	$(BIN)/python -m tools.engine $(ARGS)

counts: install ## Simulate estimates with the vocabularies of real models; writes docs/bench/counts.md
	$(BIN)/python -m tools.counts --write $(ARGS)

small-model: install ## Run a real model of 135M with a window of 2,048; writes docs/bench/small_model.md
	$(BIN)/python -m tools.small_model --write $(ARGS)

bench: install ## Measure against nginx and a bare relay (BENCH_PEERS=1: Envoy and four gateways too)
	$(BIN)/python -m bench $(ARGS)
	$(BIN)/python -m bench.scale --write
	$(BIN)/python -m bench.pages
	$(BIN)/python -m bench.growth
	$(BIN)/python -m bench.waits --write
	$(BIN)/python -m bench.conversation
	$(BIN)/python -m bench.clients --write

quality: install ## Replay recordings through all systems; DATA="FILE FILE"; writes docs/bench/quality.md
	$(BIN)/python -m bench.quality $(DATA:%=--data %) --write $(ARGS)

trace: install ## Count the files that one request runs through (docs/architecture.md has the figures)
	$(BIN)/python -m tools.trace $(ARGS)
	$(BIN)/python -m tools.trace --summary

docs: install ## Write the generated pages anew: settings, metrics, faults, troubleshooting
	$(BIN)/python docs/tables.py
	$(BIN)/python -m docs.faults
	$(BIN)/python -m docs.troubleshooting

# Without --quiet: it hides warnings from strict mode, too.
site: install ## Build the documentation as a site into site/; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --config-file configs/mkdocs.yml

sbom: install ## Write the bill of materials to dist/
	$(BIN)/python .ci/sbom.py dist/chat-proxy.cdx.json

windows: install ## Take the windows of hosted models from a public table
	$(BIN)/python .ci/windows.py

lock: install ## Resolve the dependencies anew
	$(BIN)/python .ci/lock.py
