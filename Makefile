# prestress: `make run` sets up and runs a robot, `make test` sets up and tests, `make help` lists the rest.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
ROBOT  ?= manipulator
REAL_TIME := tests/firmware tests/flash tests/hil tests/robustness
RUN_ARGS := $(if $(BROKER),--broker $(BROKER)) $(if $(DURATION),--duration $(DURATION)) $(if $(SEED),--seed $(SEED))

.DEFAULT_GOAL := help
.PHONY: help run test test-long lint lock wheel clean setup setup-dev

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "prestress needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "No venv module: install it (Debian: apt install python3-venv)."; exit 1; }
	@touch $@

$(VENV)/.run: requirements/run.lock pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/run.lock
	$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	$(BIN)/python -m pip install -q --disable-pip-version-check -r requirements/dev.lock
	@touch $@

setup: $(VENV)/.run ## the environment to run robots
setup-dev: $(VENV)/.dev ## the environment to test and train

run: $(VENV)/.run ## run a robot: ROBOT= BROKER=mqtt://host:port DURATION=seconds SEED=
	$(BIN)/prestress run $(ROBOT) $(RUN_ARGS)

test: $(VENV)/.dev lint ## lint, types, import rules and a fixed sample of every test family
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not long" tests $(addprefix --ignore=,$(REAL_TIME))
	@$(BIN)/python -m pytest -m "not long" $(REAL_TIME) || { \
	    echo "Real-time tests can starve on a busy machine: what failed of these gets one more try, alone."; \
	    $(BIN)/python -m pytest -m "not long" --last-failed --last-failed-no-failures none $(REAL_TIME); }

test-long: $(VENV)/.dev ## every kill point, fuzz run, fault and documented command; resumable
	$(BIN)/python -m tests.long

lint: $(VENV)/.dev ## ruff, mypy, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

lock: ## resolve the lock files anew (needs uv)
	uv pip compile -q --universal --python-version 3.11 --no-annotate --no-emit-index-url --extra sim -o requirements/run.lock pyproject.toml
	uv pip compile -q --universal --python-version 3.11 --no-annotate --no-emit-index-url --extra sim --extra dev --extra offboard -c requirements/run.lock -o requirements/dev.lock pyproject.toml
	sed -i -E '/^(nvidia-|cuda-|triton)/d' requirements/dev.lock # the CPU build of torch needs none of them

wheel: $(VENV)/.dev ## build the wheel into dist/
	$(BIN)/python -m pip wheel -q --no-deps -w dist .

clean: ## remove the environment, caches and runs
	rm -rf $(VENV) dist build runs .mypy_cache .ruff_cache .pytest_cache
