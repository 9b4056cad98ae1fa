# Everything runs in .venv, which is made on first use with the exact versions and contents of requirements.lock.
# Other Python or other places:  make PYTHON=python3.12 VENV=/somewhere demo

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV ?= .venv
# Only packages whose contents have a hash in the lock file are installed.
HASHED := --quiet --disable-pip-version-check --no-build-isolation --require-hashes
PIP := $(VENV)/bin/pip install $(HASHED)
PYTEST := $(VENV)/bin/python -m pytest
CORE := $(wildcard $(foreach kind,py pyx pxd,src/binlake/core/*/*.$(kind)))

.PHONY: help
help: ## what there is to make
	@echo "binlake: MySQL and MariaDB binary logs as Spark tables"
	@echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# --- the environment ---

$(VENV)/ready: requirements.lock pyproject.toml setup.py
	@$(PYTHON) dev/check_tools.py python build
	@$(PYTHON) dev/check_tools.py libdeflate || true
	@echo "setting up $(VENV) …" >&2
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@sed -n '/^[a-z]/h;G;/\n\(pip\|setuptools\|packaging\|wheel\)==/P' requirements.lock > $(VENV)/first.lock
	@$(PIP) --requirement $(VENV)/first.lock
	@$(PIP) --requirement requirements.lock
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --no-index --editable .
	@touch $@ $(VENV)/compiled

# The installation above has compiled the core already; later only what changed is compiled. The
# file's time is that of the beginning: what changes while it compiles is compiled the next time.
$(VENV)/compiled: $(VENV)/ready $(CORE)
	@touch $@.begun
	@if [ ! -e $@ ] || [ -n "$$(find $(CORE) -newer $@)" ]; then \
		$(VENV)/bin/python setup.py --quiet build_ext --inplace; fi
	@mv $@.begun $@

.PHONY: setup java
setup: $(VENV)/compiled ## make .venv and compile the core (every target does this when needed)

java:
	@$(PYTHON) dev/check_tools.py java

.PHONY: build
build: $(VENV)/compiled ## source archive and wheel into dist/ (PYTHONS="python3.11 python3.12": one for each)
	@$(VENV)/bin/python -m dev.build_wheels $(PYTHONS)

.PHONY: test-install
test-install: java ## install the wheels of dist/ without a compiler, with each set of extras, and try them (ARGS="--python python3.12 server")
	@PYTHONPATH= $(VENV)/bin/python -m dev.test_install $(ARGS)

.PHONY: man
man: $(VENV)/compiled ## man pages into build/man
	@$(VENV)/bin/python -m dev.man_pages build/man

.PHONY: docs
docs: $(VENV)/compiled ## the documentation site into build/site; a broken link is an error
	@$(VENV)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees docs build/site
	@echo build/site/index.html

.PHONY: clean
clean: ## remove what was built, not .venv
	rm -rf build dist man demo-out src/binlake.egg-info
	rm -f src/binlake/core/*/*.so $(VENV)/compiled

# --- seeing it work ---

.PHONY: demo
demo: $(VENV)/compiled java ## real MySQL and MariaDB logs to tables with Spark, and a look at them
	@$(VENV)/bin/python dev/demo.py

.PHONY: live-demo
live-demo: $(VENV)/compiled java ## a real server (downloaded once), rows that change, and Spark that sees them arrive
	@$(VENV)/bin/python -m dev.live_demo

.PHONY: mirror-demo
mirror-demo: $(VENV)/compiled java ## a real server mirrored into Iceberg: writes, an ALTER, a kill -9, then the proof
	@$(VENV)/bin/python -m dev.mirror_demo

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
test: $(VENV)/compiled ## the tests of about ten minutes: no real server, no Spark; says what it left out
	$(PYTEST) -m "not server and not spark and not costs" $(ARGS)

.PHONY: test-all
test-all: $(VENV)/compiled java ## every test; downloads the real servers first (1.2 GB unpacked)
	@$(VENV)/bin/python -m dev.servers provision
	$(PYTEST) -m "not lakes" $(ARGS)

# A JVM takes the formats' jars when it starts, so these tests share it with no others.
.PHONY: test-lakes
test-lakes: $(VENV)/compiled java ## tables of Iceberg and Delta, written, merged and read; downloads their jars first
	@$(VENV)/bin/python -m dev.servers provision lake-jars lake-readers
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/spark $(ARGS)
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/mirror $(ARGS)

.PHONY: test-mirror
test-mirror: $(VENV)/compiled java ## the mirror's short proof: 24 kills on two servers, then verify; downloads Iceberg's jar first
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/mirror/test_kills_at_places.py $(ARGS)

# 200 kills in one test take longer than pytest waits for a test that hangs.
.PHONY: soak
soak: PYTEST += -o faulthandler_timeout=14400
soak: $(VENV)/compiled java ## exactly-once against real servers with 200 kills (BINLAKE_KILLS, BINLAKE_SEED)
	BINLAKE_KILLS=$${BINLAKE_KILLS:-200} BINLAKE_REQUIRE=1 $(PYTEST) -s tests/proof $(ARGS)
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	BINLAKE_KILLS=$${BINLAKE_KILLS:-200} BINLAKE_REQUIRE=1 $(PYTEST) -s -m lakes tests/mirror/test_kills_at_places.py
	BINLAKE_KILLS=20 BINLAKE_REQUIRE=1 $(PYTEST) -s -m lakes tests/mirror/test_kills.py
	BINLAKE_MIRROR_ROUNDS=1000 BINLAKE_REQUIRE=1 $(PYTEST) -s -m lakes tests/mirror/test_compaction.py

# Interrupted, it goes on where it was: everything is in build/mirror-soak (ARGS="--state DIR": elsewhere).
.PHONY: mirror-soak
mirror-soak: $(VENV)/compiled java ## 200 kills of a mirror, of its JVM, workers, executors, server; 1,000 rounds (ARGS="--kills N --rounds N --seed N --server NAME")
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	PYTHONPATH=tests BINLAKE_REQUIRE=1 $(VENV)/bin/python -m proof.mirror_soak $(ARGS)

# Spark's newest supported line, in its own environment.
.PHONY: setup-spark43 test-spark43
setup-spark43:
	@$(MAKE) --no-print-directory VENV=.venv-spark43 .venv-spark43/spark43 java

test-spark43: setup-spark43 ## the Spark tests on PySpark 4.3.0
	.venv-spark43/bin/python -m pytest -m "spark and not lakes" $(ARGS)

.venv-spark43/spark43: .venv-spark43/compiled dev/locks/spark43.lock
	@.venv-spark43/bin/pip install $(HASHED) --requirement dev/locks/spark43.lock
	@touch $@

.PHONY: test-asan
test-asan: $(VENV)/compiled ## core tests and mutations under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(VENV)/bin/python dev/asan.py $(ARGS)

# Coverage-guided fuzzing needs clang; what it finds stays in build/fuzz, and later runs begin there.
.PHONY: fuzz-core
fuzz-core: $(VENV)/compiled ## a minute of libFuzzer on the core under sanitizers (ARGS=SECONDS: longer)
	@$(VENV)/bin/python -m dev.fuzz $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/compiled ## 100,000 seeded mutations of the golden logs, then an hour of libFuzzer
	BINLAKE_FUZZ_CASES=$${BINLAKE_FUZZ_CASES:-100000} $(PYTEST) -m fuzz $(ARGS)
	@$(VENV)/bin/python -m dev.fuzz 3600

.PHONY: fidelity
fidelity: $(VENV)/compiled ## values, events, character sets against real servers; writes docs/fidelity.md
	@$(VENV)/bin/python -m dev.fidelity $(ARGS)

.PHONY: bench
bench: $(VENV)/compiled java ## a 300 MB log against the other decoders; writes benchmarks/results/
	@$(PIP) --requirement dev/locks/benchmarks.lock
	@$(VENV)/bin/python -m benchmarks $(ARGS)

# --- making test data anew ---

.PHONY: golden
golden: $(VENV)/compiled ## tests/golden from real servers (downloads them once, 1.2 GB unpacked)
	@$(VENV)/bin/python -m dev.golden $(ARGS)

.PHONY: demo-logs
demo-logs: $(VENV)/compiled ## the logs that `make demo` shows, from real servers
	@$(VENV)/bin/python -m dev.demo_logs $(ARGS)

# --- the supply chain ---

# `make lock` needs a registry; everything else checks what it installs against these hashes. No file
# names a registry: pip takes the one of its own settings (PIP_INDEX_URL).
LOCK := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

.PHONY: lock
lock: .venv-lock/ready ## requirements.lock and dev/locks anew, for every Python and system, with hashes
	@printf 'pip\nsetuptools\nwheel\n' > .venv-lock/more.in
	@$(LOCK) --constraint constraints.txt --all-extras --output-file requirements.lock pyproject.toml .venv-lock/more.in
	@sed '/^pyspark==/d' constraints.txt > .venv-lock/without-pyspark.txt
	@for name in audit benchmarks spark43 uv; do \
		$(LOCK) --constraint .venv-lock/without-pyspark.txt --output-file dev/locks/$$name.lock dev/locks/$$name.in || exit; done
	@for name in object-store lake-readers; do \
		$(LOCK) --output-file dev/locks/$$name.lock dev/locks/$$name.in || exit; done

.venv-lock/ready: dev/locks/uv.lock
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/pip install $(HASHED) --requirement dev/locks/uv.lock
	@touch $@

.PHONY: audit
audit: .venv-audit/ready ## ask the advisory service for known vulnerabilities of all pinned packages
	@.venv-audit/bin/python -m dev.audit $(ARGS)

.venv-audit/ready: dev/locks/audit.lock
	@$(PYTHON) -m venv .venv-audit
	@.venv-audit/bin/pip install $(HASHED) --requirement dev/locks/audit.lock
	@touch $@
