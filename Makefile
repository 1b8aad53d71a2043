# The targets create the virtual environment they need; only Python 3.11+ must be installed beforehand.
PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    := .venv
BIN     := $(VENV)/bin
INSTALLED := $(VENV)/.installed
READY   := $(VENV)/.ready
INTEROP := .venv-interop
VIEWER  := $(shell find web/src -type f) $(wildcard web/*.mjs web/*.json web/*.py)

.PHONY: help demo test test-fast test-faults lint check bench reproduce reproduce-large docs tutorials package format clean browser locked interop
help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

# The stamp file is newer than its inputs, so an unchanged tree skips the installation.
$(INSTALLED): pyproject.toml constraints.txt quadric/version.py hatch_build.py
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "quadric needs Python 3.11 or newer; '$(PYTHON)' is older or missing. Choose one with: make PYTHON=/path/to/python3.11"; exit 2; }
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	@echo "Installing quadric and its tools into $(VENV) (first time: a few minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' > $(VENV)/install.log 2>&1 || \
	  { cat $(VENV)/install.log; exit 1; }
	@touch $@

# If only the viewer's sources changed, rebuild it without another installation.
$(READY): $(INSTALLED) $(VIEWER)
	@$(BIN)/python web/build_assets.py --dev
	@touch $@

# The same environment with the hash of every package checked; torch has no hash that fits all machines, see
# docs/reliability.md. CPython 3.11 on Linux x86-64 only.
locked:
	@test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	@touch $(INSTALLED)

browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "Installing Chromium for the viewer's tests ..."; \
	    apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-noto-core >/dev/null; \
	  else \
	    echo "The viewer's tests need Chromium: sudo apt-get install --no-install-recommends chromium fonts-noto-core"; exit 2; \
	  fi

demo: $(READY)  ## Train on the embedded model and text, and show what was found
	$(BIN)/quadric demo

# A file stays in one process, which makes its fixtures once. Files with slow or browser tests start first
# (tests/conftest.py), so that no process waits long for another at the end; reordering by number of tests would undo
# that. One thread each, also in what tests start: with more, they would wait for each other's. Three processes on two
# cores, because browsers and jobs are waited for. Compiled files are kept also where the environment says not to, as in
# many containers: every process would compile the tests and the package again, 9 seconds of CPU time each.
WORKERS ?= 3
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(READY) browser  ## Run all tests
	$(PYTEST)

test-fast: $(READY)  ## Run the tests that need no browser and are not slow
	$(PYTEST) -m unit

test-faults: $(READY)  ## Kill, fill disks, damage files, fuzz the server; count the cases
	$(BIN)/python -m pytest tests/faults -q

# SAELens, SAEBench, sparsify and delphi disagree with each other and with the development environment about versions, so
# they have one of their own. delphi without its dependencies: they include vllm. torchvision is deleted because the one
# that SAEBench installs is built for another torch; nothing here uses it. Quadric itself is read from this folder.
$(INTEROP)/.installed: tests/interop/real_packages/requirements.txt constraints.txt
	@test -x $(INTEROP)/bin/python || "$(PYTHON)" -m venv $(INTEROP)
	@echo "Installing other libraries into $(INTEROP) (first time: several minutes) ..."
	@grep '^torch==' constraints.txt > $(INTEROP)/constraints.txt
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check -c $(INTEROP)/constraints.txt torch
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check -c $(INTEROP)/constraints.txt \
	  -r tests/interop/real_packages/requirements.txt
	$(INTEROP)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps eai-delphi==0.1.3
	@$(INTEROP)/bin/python -m pip uninstall --quiet --yes torchvision
	@touch $@

interop: $(INTEROP)/.installed  ## Run exported dictionaries in SAELens, SAEBench, sparsify and delphi themselves
	$(INTEROP)/bin/python -m pytest tests/interop/real_packages

lint: $(READY)  ## Check format, style, types and the import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint test  ## Everything that CI checks

bench: $(READY) browser  ## Run all benchmarks and rewrite benchmarks/results/; after make demo
	@for script in $(sort $(wildcard benchmarks/bench_*.py)); do echo "== $$script"; $(BIN)/python $$script || exit 1; done

reproduce: $(READY)  ## Reproduce the paper at small size into docs/results/ (under an hour on two cores, resumable; MODEL=path for another model)
	$(BIN)/python benchmarks/reproduce.py $(if $(MODEL),--model "$(MODEL)") $(if $(RESULTS),--results "$(RESULTS)")

reproduce-large: $(READY)  ## The same at the paper's proportions, into docs/results/large/ (hours, resumable; ARGS=--plan shows the cost)
	$(BIN)/python benchmarks/reproduce_large.py $(ARGS)

docs: $(READY)  ## Build the documentation into site-build/
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python tools/write_reference.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --site-dir site-build

tutorials: $(READY)  ## Run the tutorials and rewrite their pages in docs/tutorials/ (about 12 minutes, resumable)
	$(BIN)/python tools/run_tutorials.py

package: $(READY)  ## Build wheel and source package, and use them in empty environments outside the checkout
	$(BIN)/python tools/check_package.py --keep dist

format: $(READY)  ## Format the code in place
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## Remove the virtual environment and all caches
	rm -rf $(VENV) $(INTEROP) web/node_modules quadric/viewer/static .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis site-build
