# Everything runs in .venv, which is made on first use with the exact versions of constraints.txt.
# Other Python or other places:  make PYTHON=python3.12 VENV=/somewhere demo

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV ?= .venv
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 $(VENV)/bin/pip install --quiet --constraint constraints.txt
PYTEST := $(VENV)/bin/python -m pytest
CORE := $(wildcard src/binlake/core/*.py src/binlake/core/*.pxd)

.PHONY: help
help: ## what there is to make
	@echo "binlake: MySQL and MariaDB binary logs as Spark tables"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- the environment ---

$(VENV)/ready: constraints.txt pyproject.toml setup.py
	@$(PYTHON) dev/check_tools.py python build
	@echo "setting up $(VENV) …" >&2
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) pip 'setuptools>=77' wheel Cython
	@$(PIP) --no-build-isolation --editable '.[spark,server,dev]'
	@touch $@ $(VENV)/compiled

# The installation above has compiled the core already; later only what changed is compiled.
$(VENV)/compiled: $(VENV)/ready $(CORE)
	@if [ ! -e $@ ] || [ -n "$$(find $(CORE) -newer $@)" ]; then \
		$(VENV)/bin/python setup.py --quiet build_ext --inplace; fi
	@touch $@

.PHONY: setup java
setup: $(VENV)/compiled ## make .venv and compile the core (every target does this when needed)

java:
	@$(PYTHON) dev/check_tools.py java

.PHONY: build
build: $(VENV)/compiled ## wheels into dist/ (manylinux where auditwheel can)
	@$(VENV)/bin/python dev/build_wheels.py

.PHONY: clean
clean: ## remove what was built, not .venv
	rm -rf build dist demo-out src/binlake.egg-info
	rm -f src/binlake/core/*.so $(VENV)/compiled

# --- seeing it work ---

.PHONY: demo
demo: $(VENV)/compiled java ## real MySQL and MariaDB logs to tables with Spark, and a look at them
	@$(VENV)/bin/python dev/demo.py

.PHONY: live-demo
live-demo: $(VENV)/compiled java ## a real server (downloaded once), rows that change, and Spark that sees them arrive
	@$(VENV)/bin/python -m dev.live_demo

# --- checking it ---

.PHONY: lint
lint: $(VENV)/compiled ## ruff, strict mypy
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

.PHONY: format
format: $(VENV)/ready ## ruff's formatting and safe fixes
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: test
test: $(VENV)/compiled java ## every test, core compiled
	BINLAKE_CORE=compiled $(PYTEST) $(ARGS)

.PHONY: soak
soak: $(VENV)/compiled java ## exactly-once against real servers with 200 kills (BINLAKE_KILLS, BINLAKE_SEED)
	BINLAKE_KILLS=$${BINLAKE_KILLS:-200} BINLAKE_REQUIRE=1 $(PYTEST) -s tests/proof $(ARGS)

# A copy without the compiled modules: beside its .py a compiled module always wins.
.PHONY: test-pure
test-pure: $(VENV)/compiled ## units and golden logs, core uncompiled
	@rm -rf build/pure && mkdir -p build/pure
	@cp -R src/. build/pure && find build/pure -name '*.so' -delete
	BINLAKE_CORE=pure PYTHONPATH=build/pure $(PYTEST) -m "not spark" $(or $(ARGS),tests/unit tests/meta tests/truth/test_golden.py)

# Spark's newest supported line, in its own environment.
.PHONY: setup-spark43 test-spark43
setup-spark43:
	@$(MAKE) --no-print-directory VENV=.venv-spark43 .venv-spark43/spark43 java

test-spark43: setup-spark43 ## the Spark tests on PySpark 4.3.0
	BINLAKE_CORE=compiled .venv-spark43/bin/python -m pytest -m spark $(ARGS)

.venv-spark43/spark43: .venv-spark43/compiled
	@sed '/^pyspark==/d' constraints.txt > $@.txt
	@PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-spark43/bin/pip install --quiet --constraint $@.txt 'pyspark[connect]==4.3.0'
	@touch $@

.PHONY: test-asan
test-asan: $(VENV)/compiled ## core tests and mutations under AddressSanitizer
	@$(VENV)/bin/python dev/asan.py $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/compiled ## 100,000 seeded mutations of the golden logs
	BINLAKE_FUZZ_CASES=$${BINLAKE_FUZZ_CASES:-100000} $(PYTEST) -m fuzz $(ARGS)

.PHONY: fidelity
fidelity: $(VENV)/compiled ## values, events, character sets against real servers; writes docs/fidelity.md
	@$(VENV)/bin/python -m dev.fidelity $(ARGS)

.PHONY: bench
bench: $(VENV)/compiled java ## a 500 MB log against the other decoders; writes benchmarks/results/
	@$(PIP) mysql-replication
	@$(VENV)/bin/python -m benchmarks $(ARGS)

# --- making test data anew ---

.PHONY: golden
golden: $(VENV)/compiled ## tests/golden from real servers (downloads them once, 1.2 GB unpacked)
	@$(VENV)/bin/python -m dev.golden $(ARGS)

.PHONY: demo-logs
demo-logs: $(VENV)/compiled ## the logs that `make demo` shows, from real servers
	@$(VENV)/bin/python -m dev.demo_logs $(ARGS)
