# `make demo` and `make test` need python3 with venv, and nothing else.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
RUN_STAMP := .venv/.run-installed
DEV_STAMP := .venv/.dev-installed
# Many tests wait for a process or a socket: half again as many workers as cores.
WORKERS = $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) * 3 // 2)')

.PHONY: help install shell demo test test-fast coverage mutants check format soak bench bench-service screenshots docs lock sbom wheel clean
.DEFAULT_GOAL := help

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv .venv

$(RUN_STAMP): requirements/run.lock pyproject.toml | $(BIN)/python
	$(PIP) --require-hashes -r requirements/run.lock
	$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV_STAMP): requirements/dev.lock $(RUN_STAMP)
	$(PIP) --require-hashes -r requirements/dev.lock
	@touch $@

install: $(RUN_STAMP)  ## set dhdmm up in .venv, with pandas and the network service

shell: $(RUN_STAMP)  ## a shell in which `dhdmm` is that of .venv
	@PATH="$(abspath $(BIN)):$$PATH" VIRTUAL_ENV="$(abspath .venv)" $${SHELL:-sh}

demo: $(RUN_STAMP)  ## the main job, here and now
	$(BIN)/dhdmm demo

test: $(DEV_STAMP)  ## every test but the soak, and which ten took longest
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not soak" --durations=10

test-fast: $(DEV_STAMP)  ## the tests that start no process: for while you work
	$(BIN)/python -m pytest -n auto --dist worksteal -p tests.fast --durations=10

coverage: $(DEV_STAMP)  ## lines and branches of src that `test-fast` reaches, then `test`
	@for tests in "-p tests.fast" '-m "not soak"'; do \
	  $(BIN)/python -m coverage erase; \
	  eval $(BIN)/python -m coverage run -m pytest -q -n $(WORKERS) --dist worksteal "$$tests"; \
	  $(BIN)/python -m coverage combine --quiet; \
	  $(BIN)/python -m tests.coverage; \
	done

mutants: $(DEV_STAMP)  ## weaken the guards one by one: a test must notice each
	$(BIN)/python -m tests.mutants

check: $(DEV_STAMP)  ## format, lint, types, import directions, advisories
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python deploy/audit.py

format: $(DEV_STAMP)  ## rewrite files as `check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: $(DEV_STAMP)  ## the long tests, and every property: many more seeds, samples and examples
	$(BIN)/python -m pytest -n auto --hypothesis-profile soak -m "soak or hypothesis"

bench: $(DEV_STAMP)  ## time, error and bytes, as ratios within one run
	$(BIN)/python -m bench

bench-service: $(DEV_STAMP)  ## the load that one coordinator holds; ten minutes
	$(BIN)/python -m bench.service
	$(BIN)/python -m bench.service --two-servers 5000

screenshots: $(DEV_STAMP)  ## the pages as the documentation shows them (needs chromium)
	$(BIN)/python -m tests.browser.screenshots

docs: $(DEV_STAMP)  ## the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

sbom: $(DEV_STAMP)  ## the software bill of materials, in dist/
	$(BIN)/python deploy/sbom.py dist/sbom.cdx.json

wheel: $(DEV_STAMP)  ## a wheel in dist/
	$(BIN)/python -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

lock: $(DEV_STAMP)  ## choose versions anew (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --all-extras --group dev --group bench --group docs pyproject.toml -o requirements/dev.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate \
	  --extra pandas --extra service --group build --constraint requirements/dev.lock pyproject.toml -o requirements/run.lock
	$(BIN)/python deploy/sbom.py deploy/service.lock

clean:  ## forget the environment and everything made
	rm -rf .venv site dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
