# Two commands do everything on a fresh machine with Python 3.11: `make demo` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types format lock licences sbom bench docs fuzz soak clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

# Everything but torch is taken by its hash; then torch and the package, at the versions that constraints.txt names.
# The second command downloads torch alone, and checks that all the others are within pyproject.toml's ranges.
# Most of what is installed is never imported, so Python compiles what it imports, at the first time.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
HASHED := $(PIP) install --no-compile --require-hashes --no-deps --no-build-isolation -r
LOCKED ?= yes

$(READY): pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),yes)
	@# setuptools first: it builds the one package that has no wheel
	grep '^setuptools==' requirements.lock | $(HASHED) /dev/stdin
	$(HASHED) requirements.lock || { echo "The lock is for Python 3.11 on Linux x86-64; elsewhere: make LOCKED=no" >&2; exit 1; }
else
	$(PIP) install -c constraints.txt setuptools
endif
	$(PIP) install --no-compile --no-build-isolation -c constraints.txt -e ".[dev,he]"
	@touch $@

demo: $(READY)  ## a small federation on the embedded data; ends with the path of the page
	$(BIN)/fluoroscope demo

# One thread each (tests/conftest.py), and one worker more than two cores, since tests of federations often wait for
# processes to start; who is finished takes over tests of the others.
WORKERS ?= 3
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist worksteal

test: $(READY)  ## the tests, in a few minutes
	$(PYTEST) -m "not slow"

test-all: $(READY)  ## every test, the slow ones too
	$(PYTEST)

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

docs: $(READY)  ## the documentation as a site, with a search: site/index.html opens without a server
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# One process, one thread: inputs and kills are known by SEED and their number.
INPUTS ?= 10000
KILLS ?= 100
SEED ?= 0

fuzz: $(READY)  ## so many mutated INPUTS over all readers: a sentence each, no traceback, abort or hang
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz --inputs $(INPUTS) --seed $(SEED)

soak: $(READY)  ## so many KILLS at file operations of every command, and the memory of large federations
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak --kills $(KILLS) --seed $(SEED)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.soak.scale

lock: $(READY)  ## write constraints.txt and requirements.lock from the environment as it is
	$(BIN)/python tools/lock.py
	@touch $(READY)

licences: $(READY)  ## the licence of every package
	$(BIN)/python tools/licences.py

sbom: $(READY)  ## sbom.cdx.json: every package with version, licence and hash, as CycloneDX 1.5
	$(BIN)/python tools/sbom.py sbom.cdx.json

clean:
	rm -rf $(VENV) runs out site .mypy_cache .ruff_cache .pytest_cache
