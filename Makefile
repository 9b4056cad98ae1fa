# Every target runs in .venv. The first one creates it and installs the packages of requirements.lock, whose hashes pip checks.
# To use another Python or directory:  make PYTHON=python3.12 VENV=/somewhere demo

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
# Where it is set, each of the hundreds of processes that tests start would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV ?= .venv
# pip installs only packages whose hash is in the lock file.
HASHED := --quiet --disable-pip-version-check --no-build-isolation --require-hashes
PIP := $(VENV)/bin/pip install $(HASHED)
PYTEST := $(VENV)/bin/python -m pytest
CORE := $(wildcard $(foreach kind,py pyx pxd,src/binlake/core/*/*.$(kind)))

.PHONY: help
help: ## list the targets
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

# The installation above has compiled the core already. Later runs compile changed modules only. The file's time is the
# start of the compilation, so the next run compiles a module that changes in the meantime.
$(VENV)/compiled: $(VENV)/ready $(CORE)
	@touch $@.begun
	@if [ ! -e $@ ] || [ -n "$$(find $(CORE) -newer $@)" ]; then \
		$(VENV)/bin/python setup.py --quiet build_ext --inplace; fi
	@mv $@.begun $@

# The classes of Spark, for JVMs that tests start.
$(VENV)/spark.jsa: $(VENV)/ready dev/spark_classes.py | $(VENV)/compiled java
	@$(VENV)/bin/python -m dev.spark_classes

.PHONY: setup java
setup: $(VENV)/compiled ## create .venv and compile the core (every target does this when needed)

java:
	@$(PYTHON) dev/check_tools.py java

.PHONY: build
build: $(VENV)/compiled ## build the source archive and a wheel in dist/ (PYTHONS="python3.11 python3.12": one wheel for each)
	@$(VENV)/bin/python -m dev.build_wheels $(PYTHONS)

.PHONY: test-install
test-install: java ## install the wheels in dist/ without a compiler, with each set of extras, and run them (ARGS="--python python3.12 server")
	@PYTHONPATH= $(VENV)/bin/python -m dev.test_install $(ARGS)

.PHONY: man
man: $(VENV)/compiled ## write the man pages to build/man
	@$(VENV)/bin/python -m dev.man_pages build/man

.PHONY: docs
docs: $(VENV)/compiled ## build the documentation site in build/site; a broken link is an error
	@$(VENV)/bin/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir build/doctrees docs build/site
	@echo build/site/index.html

.PHONY: clean
clean: ## remove everything that was built, except .venv
	rm -rf build dist man demo-out src/binlake.egg-info
	rm -f src/binlake/core/*/*.so $(VENV)/compiled

# --- demos ---

.PHONY: demo
demo: $(VENV)/compiled java ## export real MySQL and MariaDB logs to tables with Spark, and query the tables
	@$(VENV)/bin/python dev/demo.py

.PHONY: live-demo
live-demo: $(VENV)/compiled java ## start a real server (downloaded once), change rows, and show how they arrive in Spark
	@$(VENV)/bin/python -m dev.live_demo

.PHONY: mirror-demo
mirror-demo: $(VENV)/compiled java ## mirror a real server into Iceberg during writes, an ALTER and a kill -9, then compare both
	@$(VENV)/bin/python -m dev.mirror_demo

# --- tests ---

.PHONY: lint
lint: $(VENV)/compiled ## run ruff and mypy (strict)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

.PHONY: format
format: $(VENV)/ready ## format the source, and apply ruff's safe fixes
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

.PHONY: test
test: $(VENV)/compiled ## run the tests that need no server and no Spark (10 to 20 minutes)
	$(PYTEST) -m "not server and not spark and not costs" $(ARGS)

.PHONY: setup-tests
setup-tests: $(VENV)/spark.jsa ## download the servers that tests start (1.2 GB unpacked)
	@$(VENV)/bin/python -m dev.servers provision

.PHONY: test-all
test-all: setup-tests ## run all tests except test-lakes; downloads the servers first
	$(PYTEST) -m "not lakes" $(ARGS)

# A JVM loads the jars of the table formats when it starts, so these tests need a JVM of their own.
.PHONY: test-lakes
test-lakes: PYTEST += -o faulthandler_timeout=2700
test-lakes: $(VENV)/spark.jsa ## write, merge and read Iceberg and Delta tables; downloads their jars first
	@$(VENV)/bin/python -m dev.servers provision lake-jars lake-store-jars lake-readers s3 hdfs percona-toolkit
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/spark $(ARGS)
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/mirror $(ARGS)

.PHONY: test-mirror
test-mirror: $(VENV)/spark.jsa ## kill a mirror, its JVM, workers, executors and server 26 times, purge logs, and compare the lake; downloads Iceberg's jar first
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/mirror/test_kills_at_places.py \
		tests/mirror/test_kills.py::test_kills_of_processes \
		"tests/mirror/starts/test_killed_servers.py::test_a_log_that_ends_inside_of_a_transaction[mariadb-11.8-server]" \
		tests/mirror/starts/test_purged_logs.py $(ARGS)

.PHONY: test-mirror-pages
test-mirror-pages: $(VENV)/spark.jsa ## run the code blocks of the mirror's pages and its notebook
	@$(VENV)/bin/python -m dev.servers provision lake-jars lake-readers
	BINLAKE_REQUIRE=1 $(PYTEST) -m lakes tests/mirror/test_pages.py tests/mirror/test_mirror.py::test_the_notebook_about_mirrors $(ARGS)

# 200 kills in one test take longer than pytest waits for a test that hangs.
.PHONY: soak
soak: PYTEST += -o faulthandler_timeout=14400
soak: $(VENV)/compiled java ## test exactly-once delivery with real servers and 200 kills (BINLAKE_KILLS, BINLAKE_SEED)
	BINLAKE_KILLS=$${BINLAKE_KILLS:-200} BINLAKE_REQUIRE=1 $(PYTEST) -s tests/proof $(ARGS)
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	BINLAKE_KILLS=$${BINLAKE_KILLS:-200} BINLAKE_REQUIRE=1 $(PYTEST) -s -m lakes tests/mirror/test_kills_at_places.py
	BINLAKE_KILLS=20 BINLAKE_REQUIRE=1 $(PYTEST) -s -m lakes tests/mirror/test_kills.py
	BINLAKE_MIRROR_ROUNDS=1000 BINLAKE_REQUIRE=1 $(PYTEST) -s -m lakes tests/mirror/test_compaction.py

# After an interruption, it continues from the state in build/mirror-soak (ARGS="--state DIR" sets another directory).
.PHONY: mirror-soak
mirror-soak: $(VENV)/compiled java ## kill a mirror, its JVM, workers, executors and server 200 times, then run 1,000 rounds (ARGS="--kills N --rounds N --seed N --server NAME")
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	PYTHONPATH=tests BINLAKE_REQUIRE=1 $(VENV)/bin/python -m proof.mirror_soak $(ARGS)

.PHONY: mirror-verify
mirror-verify: $(VENV)/compiled ## inject faults into copies of a table of a million rows, and compare them with servers (BINLAKE_VERIFY_ROWS, ARGS="-k mysql-9.7")
	BINLAKE_VERIFY_ROWS=$${BINLAKE_VERIFY_ROWS:-1000000} BINLAKE_REQUIRE=1 $(PYTEST) --durations=0 tests/mirror/test_verify.py $(ARGS)

.PHONY: mirror-random
mirror-random: $(VENV)/compiled java ## mirror random DML and DDL on 30 tables of every type, then verify the lake (ARGS="--seconds N --server NAME --seed N --tables N")
	@$(VENV)/bin/python -m dev.servers provision lake-jars
	PYTHONPATH=tests BINLAKE_REQUIRE=1 $(VENV)/bin/python -m proof.mirror_random $(ARGS)

.PHONY: mirror-cluster
mirror-cluster: $(VENV)/compiled java ## kill a mirror on a cluster of two workers with a lake in S3, and mirror random statements there (ARGS="--seconds N --server NAME --seed N")
	@$(VENV)/bin/python -m dev.servers provision lake-jars lake-store-jars lake-readers s3
	PYTHONPATH=tests BINLAKE_REQUIRE=1 $(VENV)/bin/python -m proof.mirror_cluster $(ARGS)

# The newest supported version of Spark, in an environment of its own, which uses the compiled core of .venv.
.PHONY: setup-spark43 test-spark43
setup-spark43: .venv-spark43/spark.jsa

test-spark43: setup-spark43 ## run the Spark tests on PySpark 4.3.0
	.venv-spark43/bin/python -m pytest -m "spark and not lakes" $(ARGS)

.venv-spark43/spark43: requirements.lock dev/locks/spark43.lock pyproject.toml setup.py | $(VENV)/compiled
	@echo "setting up .venv-spark43 …" >&2
	@test -x .venv-spark43/bin/python || $(PYTHON) -m venv .venv-spark43
	@.venv-spark43/bin/pip install $(HASHED) --requirement $(VENV)/first.lock
	@.venv-spark43/bin/pip install $(HASHED) --requirement requirements.lock
	@.venv-spark43/bin/pip install $(HASHED) --requirement dev/locks/spark43.lock
	@rm -rf .venv-spark43/lib/python3*/site-packages/*binlake*
	@cp -r $(VENV)/lib/python3*/site-packages/*binlake* .venv-spark43/lib/python3*/site-packages/
	@touch $@

.venv-spark43/spark.jsa: .venv-spark43/spark43 dev/spark_classes.py | java
	@.venv-spark43/bin/python -m dev.spark_classes

.PHONY: test-asan
test-asan: $(VENV)/compiled ## run the core's tests and mutated logs under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(VENV)/bin/python dev/asan.py $(ARGS)

# Coverage-guided fuzzing needs clang. It keeps its findings in build/fuzz, and later runs start from them.
.PHONY: fuzz-core
fuzz-core: $(VENV)/compiled ## run libFuzzer on the core under sanitizers for a minute (ARGS=SECONDS: longer)
	@$(VENV)/bin/python -m dev.fuzz $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/compiled ## read 100,000 seeded mutations of the golden logs, then run libFuzzer for an hour
	BINLAKE_FUZZ_CASES=$${BINLAKE_FUZZ_CASES:-100000} $(PYTEST) -m fuzz $(ARGS)
	@$(VENV)/bin/python -m dev.fuzz 3600

.PHONY: fidelity
fidelity: $(VENV)/compiled ## compare values, events and character sets with real servers; writes docs/fidelity.md
	@$(VENV)/bin/python -m dev.fidelity $(ARGS)

.PHONY: bench
bench: $(VENV)/compiled java ## measure binlake and the other decoders on a log of 300 MB; writes benchmarks/results/
	@$(PIP) --requirement dev/locks/benchmarks.lock
	@$(VENV)/bin/python -m benchmarks $(ARGS)

# --- test data ---

.PHONY: golden
golden: $(VENV)/compiled ## write tests/golden again with real servers (downloads them once, 1.2 GB unpacked)
	@$(VENV)/bin/python -m dev.golden $(ARGS)

.PHONY: demo-logs
demo-logs: $(VENV)/compiled ## write the logs of `make demo` again with real servers
	@$(VENV)/bin/python -m dev.demo_logs $(ARGS)

# --- pinned packages ---

# `make lock` needs a package registry. All other targets check the packages that they install against these hashes. No file
# names a registry: pip uses the one in its own settings (PIP_INDEX_URL).
LOCK := .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --no-emit-find-links

.PHONY: lock
lock: .venv-lock/ready ## write requirements.lock and dev/locks again, with hashes for every Python and system
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
