# Needs Python >= 3.11 and make; every target first makes the environment it runs in.
#
#   PYTHON=python3.12   make the environment with this interpreter, not the newest tested one on PATH
#   VENV=.venv-3.12     make it in another folder
#   ARGS="-k budget"    more arguments for test, test-production, the benchmarks and worker
#   TRANSCRIPT=path     replay this conversation in the demo; KEEP=1 leaves the demo's servers running
#                       (make hands both to the demo in its environment)

VENV ?= .venv
ARGS ?=
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --quiet --disable-pip-version-check

# Scripts in an environment name its folder, so it cannot be moved or copied. Its marks carry a
# checksum of the folder: in any other one they are missing, and it is made anew.
MADE := $(VENV)/made-$(shell printf '%s' '$(CURDIR)' | cksum | cut -d ' ' -f 1)
INSTALLED := $(MADE)-installed

# A shim may exist without an interpreter behind it, and a distribution may leave venv out: try both.
USABLE := -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p $(USABLE) && { echo $$p; break; }; done)

# uv only writes the lock files; installing needs nothing but pip.
UV := uv==0.13.8
LOCK = $(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup demo test test-production replay test-browser test-observability screenshots dashboard-picture check format bench bench-recall bench-cache bench-retrieval bench-pipeline worker up down wheel lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-18s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: $(INSTALLED) ## make the environment: pinned dependencies and the project itself

demo: $(INSTALLED) ## compact a real conversation while it is replayed (TRANSCRIPT=path, KEEP=1)
	@$(PY) -m examples.demo

test: $(INSTALLED) ## run the tests (ARGS="-k name")
	@$(PY) -m pytest $(ARGS)

test-production: $(INSTALLED) ## run the worker against its own PostgreSQL and the real Temporal server
	@$(PY) -m pytest tests/production $(ARGS)

test-browser: $(INSTALLED) ## open Temporal's UI and the inspector in headless Chromium (CHROMIUM=path)
	@$(PY) -m pytest tests/browser $(ARGS)

test-observability: $(INSTALLED) ## try the dashboard and the alerts with a real Prometheus (apt install prometheus)
	@$(PY) -m pytest tests/observability $(ARGS)

dashboard-picture: $(INSTALLED) ## draw docs/dashboard.png from a live stack (apt install prometheus)
	@$(PY) -m tests.observability.picture docs/dashboard.png

screenshots: $(INSTALLED) ## take the pictures in docs/pictures from a live stack (CHROMIUM=path)
	@$(PY) -m examples.screenshots $(ARGS)

replay: $(INSTALLED) ## replay every recorded history with this code: the gate of a release
	@$(PY) -m pytest tests/replay $(ARGS)

check: $(INSTALLED) ## formatting, lint, types, import direction
	@$(VENV)/bin/ruff format --check
	@$(VENV)/bin/ruff check
	@PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright --pythonpath $(PY)
	@$(VENV)/bin/lint-imports --no-logo

format: $(INSTALLED) ## format, and apply what lint can fix by itself
	@$(VENV)/bin/ruff format
	@$(VENV)/bin/ruff check --fix

bench: $(INSTALLED) ## measure prepare, record_turn and compaction
	@$(PY) -m benchmarks $(ARGS)

bench-recall: $(INSTALLED) ## what of a tool call's values the prompt before it holds (ARGS="--misses 20")
	@$(PY) -m benchmarks.recall $(ARGS)

bench-cache: $(INSTALLED) ## what of a prompt a prefix cache would serve (ARGS="--limit 1")
	@$(PY) -m benchmarks.cache $(ARGS)

bench-retrieval: $(INSTALLED) ## what of a question's evidence is retrieved for it (ARGS="--joined", "--misses 20")
	@$(PY) -m benchmarks.retrieval $(ARGS)

bench-pipeline: $(INSTALLED) ## put recorded agents through all processors and check each prompt (ARGS="--limit 1")
	@$(PY) -m benchmarks.pipeline $(ARGS)

worker: $(INSTALLED) ## run a worker, settings from the environment (ARGS=dev: the embedded stack)
	@$(PY) -m worker $(ARGS)

up: .env ## start the containers and wait until all are healthy
	@docker compose up --detach --build --wait

down: ## stop the containers; their volumes stay
	@docker compose down

wheel: $(INSTALLED) ## build the wheel and the source archive in dist/
	@$(VENV)/bin/hatchling build -d dist

lock: $(INSTALLED) ## pin the newest versions pyproject.toml allows
	@$(PIP) install $(UV)
	@$(LOCK) pyproject.toml --extra models --extra telemetry --extra ui --group dev --output-file requirements.lock
	@$(LOCK) pyproject.toml --extra models --extra telemetry --constraints requirements.lock --output-file requirements.worker.lock
	@$(LOCK) --group build --constraints requirements.lock --output-file requirements.build.lock

clean: ## remove the environment, caches and build products
	rm -rf $(VENV) dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(MADE):
	@test -n '$(PYTHON)' || { echo 'No Python with venv found: install Python 3.11, 3.12 or 3.13' \
		'(on Debian and Ubuntu also python3-venv), or name one with PYTHON=path.' >&2; exit 1; }
	@'$(PYTHON)' $(USABLE) || { echo "PYTHON='$(PYTHON)' cannot be used: it must be Python 3.11 or" \
		'newer, with the venv module.' >&2; exit 1; }
	@'$(PYTHON)' -m venv --clear '$(VENV)'
	@touch '$@'

$(INSTALLED): $(MADE) requirements.lock pyproject.toml
	@echo 'Installing the pinned dependencies in $(VENV) (once) …'
	@$(PIP) install --require-hashes --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch '$@'

# Development secrets: every password that .env.example leaves empty is made up here, once.
.env: | .env.example
	@umask 077; while IFS= read -r line; do case "$$line" in \
		*_PASSWORD=) echo "$$line$$(od -An -N 16 -tx1 /dev/urandom | tr -d ' \n')";; \
		*) printf '%s\n' "$$line";; esac; done < .env.example > '$@'
	@echo 'Wrote .env with new passwords.'
