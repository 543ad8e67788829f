# make demo    a real Kafka, workloads that go wrong on purpose, and the agent that says so
# make quick   what to run before a commit: 3 minutes
# make test    everything that a change can break: 15 minutes
# make proof   what takes longer: other versions, faults, fuzzing, oldest libraries, images; `make help` lists the rest
#
# Each does its whole set-up itself (virtual environment, Kafka's jars, promtool). Times are of two cores.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
READY := $(VENV)/.ready
# Tests on real servers wait for half of their time: more of them than cores may run at once. A worker takes up to 3 GB.
WORKERS ?= 4
# `make unit ARGS="-k stall -x"` and the like.
ARGS ?=

.PHONY: help setup check format unit lowest hostile fuzz golden weight rules rules-lint rules-proof versions mutants chaos chaos-short soak chart container image compose cluster dist site e2e e2e-proof rolls spark spark-versions spark-install real quick test proof proof-of-changes demo stack bench generate captures telemetry release lock clean

help: ## what can be made
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

setup: $(READY) ## the virtual environment, from the pinned versions of constraints.txt

$(READY): pyproject.toml constraints.txt scripts/make-venv
	@scripts/make-venv $(VENV) $(PYTHON)
	@touch $@

check: $(READY) ## format, lint, types, import law, and that generated files are what the code says
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/kafka-eos-exporter generate --check
	$(PY) -m scripts.chart_readme --check
	@scripts/check-dashboard-types $(PY)

format: $(READY) ## let ruff rewrite the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

unit: $(READY) ## tests without a network; ARGS="tests/unit/lso" for a part
	$(BIN)/pytest tests/unit -n 3 $(ARGS)

lowest: $(READY) ## the unit tests on the oldest libraries that pyproject.toml allows
	@scripts/install-prometheus
	scripts/check-lowest $(PY) $(ARGS)

golden: $(READY) ## whole /metrics pages, linted by promtool
	@scripts/install-prometheus
	$(BIN)/pytest tests/golden $(ARGS)

rules: $(READY) ## the alerts, by Prometheus' own rule engine, and a sample of their mutants
	@scripts/install-prometheus
	$(BIN)/pytest tests/rules $(ARGS)

rules-proof: $(READY) ## the long cases of the alerts as replicas see them
	@scripts/install-prometheus
	$(BIN)/pytest tests/rules -m proof -k "not mutants" -n 2 $(ARGS)

rules-lint: $(READY) ## the alerts, the mixin and the dashboards by promtool, pint, mixtool and dashboard-linter, where they can be had
	@scripts/install-prometheus
	@scripts/check-rules $(PY)

mutants: $(READY) ## every small change of an alert that pages must break a case: minutes; ARGS="KafkaEosLsoStalled" for one
	@scripts/install-prometheus
	$(PY) -m tests.rules.mutation $(ARGS)

# Tests on real servers run in the order of their files, which share clusters: tests/e2e/conftest.py. No test runs again
# when it fails.
REAL := --dist loadfile --no-loadscope-reorder -p no:randomly

OTHER_VERSIONS ?= 3.0.2 3.3.2 3.6.2-zookeeper 3.6.2 3.8.1 3.9.2-zookeeper 4.1.1

# Without the tests marked `proof`.
e2e: $(READY) ## real brokers, Connect, Streams, Flink, and the demo, on one version of Kafka
	@scripts/install-prometheus
	$(BIN)/pytest tests/e2e --ignore tests/e2e/spark -m "not proof" -n $(WORKERS) $(REAL) $(ARGS)

rolls: $(READY) ## rolls of three brokers, what `check roll` says against what follows; ROLLS=50 takes 25 minutes
	ROLLS=$(ROLLS) $(BIN)/pytest tests/e2e/test_roll.py -s $(ARGS)

e2e-proof: $(READY) ## the end-to-end tests that are left out of make e2e and make spark, and those on a second version of Kafka
	@scripts/install-prometheus
	@$(PY) -m tests.e2e.spark.packages
	$(BIN)/pytest tests/e2e --ignore tests/e2e/test_chaos.py -m proof -n $(WORKERS) $(REAL) $(ARGS)

# One version after the other, as each has brokers of its own; "-zookeeper" is without KRaft. test_stack is about Kafka's
# own tools, which were others before 3.9.
versions: $(READY) ## the tests on brokers of other versions, 4 minutes each; OTHER_VERSIONS="3.6.2 4.1.1"
	@for version in $(OTHER_VERSIONS); do \
	  echo "Kafka $$version"; \
	  KAFKA_VERSIONS=$$version $(BIN)/pytest tests/e2e --ignore tests/e2e/spark -n $(WORKERS) $(REAL) \
	    -k "$$version and not test_stack" $(ARGS) || exit 1; \
	done

spark: $(READY) ## streaming progress, history and audit on a real Spark and a real broker
	$(PY) -m tests.e2e.spark.packages
	$(BIN)/pytest tests/e2e/spark -m "not proof" -n $(WORKERS) $(REAL) $(ARGS)

# Of pyspark; empty: all that are tried.
SPARK_VERSIONS ?=

spark-versions: $(READY) ## history and audit on other versions of pyspark, 5 minutes each; SPARK_VERSIONS="3.5.7 4.2.0"
	scripts/check-spark-versions $(PY) $(SPARK_VERSIONS)

spark-install: $(READY) ## the wheel with its extra for Spark, the GitHub Action and the pre-commit hook, in empty environments: minutes
	scripts/build-dist $(PY)
	$(BIN)/pytest tests/release -m proof $(ARGS)

chart: $(READY) ## the Helm chart, by helm, Kubernetes' schemas and the agent itself; builds helm the first time
	@scripts/install-prometheus
	@scripts/install-chart-tools >/dev/null
	$(BIN)/pytest tests/chart -n 2 $(ARGS)

container: $(READY) ## the Dockerfile and the compose file by their rules, the agent's image without an engine
	@scripts/install-prometheus
	@scripts/install-chart-tools >/dev/null
	scripts/check-container $(PY) $(ARGS)

# agent, spark or all: the image with Spark takes minutes more.
IMAGE ?= agent

image: $(READY) ## build the image with podman or docker and try it beside a real broker: minutes; IMAGE=spark, IMAGE=all
	scripts/check-image $(PY) $(IMAGE) $(ARGS)

compose: $(READY) ## bring up demo/compose.yaml by Docker, or Debian's, up to a page in Alertmanager: minutes
	scripts/check-compose $(PY) $(ARGS)

cluster: $(READY) ## install the chart on the Kubernetes that KUBECONFIG names, or on a new kind, and try it: minutes; SPARK=yes
	scripts/check-cluster $(PY) $(ARGS)

dist: $(READY) ## wheel, source and bill of materials, installed in an empty environment and tried there
	scripts/build-dist $(PY)
	$(BIN)/pytest tests/release -m "not proof" $(ARGS)

# The faults are drawn from SEED; the same seed plans the same faults. Reports and logs: build/chaos.
SEED ?= 1
MINUTES ?= 10
MODE ?= ordinary

chaos: $(READY) ## three brokers, 40 ids and the agent under faults, and an oracle that judges; SEED=1 MINUTES=10 MODE=unclean
	$(PY) -m tests.chaos --seed $(SEED) --minutes $(MINUTES) --mode $(MODE)

chaos-short: $(READY) ## the same with a fixed seed, in four minutes of faults
	$(BIN)/pytest tests/e2e/test_chaos.py -s $(ARGS)

HOURS ?= 2
SOAK_MINUTES ?= $(shell echo $$(($(HOURS) * 60)))

soak: $(READY) ## 100 transactions/s of applications that come and go: what the agent takes; HOURS=2, SOAK_MINUTES=10
	@mkdir -p build/soak
	$(PY) -m tests.chaos.soak --minutes $(SOAK_MINUTES)

site: $(READY) ## the documentation site in build/site, with warnings as errors and every link checked
	scripts/build-site $(PY)

hostile: $(READY) ## what others may write: every reader fuzzed for 20 s (FUZZ_SECONDS), always from the same seed (FUZZ_SEED), patterns, the agent in 256 MB under each attack for two minutes (ATTACK_SECONDS)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-20} FUZZ_SEED=$${FUZZ_SEED:-1} ATTACK_SECONDS=$${ATTACK_SECONDS:-120} $(BIN)/pytest tests/fuzz tests/hostile -n 2 $(ARGS)

fuzz: $(READY) ## every reader fuzzed for FUZZ_SECONDS (60), from a new seed each time; what fails stays in tests/fuzz/corpus
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} $(BIN)/pytest tests/fuzz -n 2 $(ARGS)

quick: $(READY) ## what to run before a commit: check, unit and golden, side by side; each is printed when it is over
	@$(MAKE) --jobs=2 --output-sync=target unit check golden

# One run of pytest, so that tests which wait and tests which compute share the cores: those of a file in their order and in
# one process, the longest files first. Fuzzing tries the whole corpus and then 2 s of new inputs.
real: $(READY) ## the tests of e2e, spark, rules, chart and hostile, but those marked `proof`
	@scripts/install-prometheus
	@scripts/install-chart-tools >/dev/null
	@$(PY) -m tests.e2e.spark.packages
	FUZZ_SECONDS=$${FUZZ_SECONDS:-2} FUZZ_SEED=$${FUZZ_SEED:-1} $(BIN)/pytest -m "not proof" -n $(WORKERS) $(REAL) \
	  tests/fuzz tests/rules tests/chart tests/hostile tests/e2e $(ARGS)

test: $(READY) ## all that a change can break
	@$(MAKE) --jobs=2 --output-sync=target unit dist check golden
	@$(MAKE) real

# How many minutes a proof takes, and the files that it rests on. e2e-proof takes what is left: tests that do not begin
# in time before PROOF_UNTIL (tests/e2e/conftest.py) are skipped, and their number is printed.
BROKERS := exporter/kafka exporter/cluster exporter/connect exporter/groups exporter/lso exporter/spark exporter/streams exporter/transactions exporter/model.py demo testkit
PROOFS := container site lowest rules-lint rules-proof mutants hostile chaos-short spark-install spark-versions e2e-proof
container.rests_on := 2 Dockerfile .dockerignore docker pyproject.toml constraints.txt demo/compose.yaml demo/compose tests/container
site.rests_on := 2 docs mkdocs.yml scripts/build-site scripts/check_site.py scripts/site_hooks.py
lowest.rests_on := 4 pyproject.toml scripts/check-lowest scripts/lowest.py
rules-lint.rests_on := 3 alerts dashboards scripts/check-rules .pint.hcl .lint tests/rules/boards
rules-proof.rests_on := 4 alerts tests/rules
mutants.rests_on := 10 alerts tests/rules
hostile.rests_on := 15 exporter/bounds exporter/http_client exporter/ingest exporter/status exporter/web_server exporter/kafka exporter/spark exporter/jvm exporter/telemetry exporter/settings tests/fuzz tests/hostile
spark-versions.rests_on := 25 exporter/jobs exporter/commands/spark.py tests/e2e/spark pyproject.toml
spark-install.rests_on := 8 exporter/jobs pyproject.toml action.yml .pre-commit-hooks.yaml tests/release
e2e-proof.rests_on := 6 $(BROKERS) exporter/jobs tests/e2e
chaos-short.rests_on := 8 $(BROKERS) tests/chaos

proof-of-changes: $(READY) ## of the proofs, those that rest on files that changed: scripts/when-changed
	@$(foreach name,$(PROOFS),scripts/when-changed $(name) $($(name).rests_on) -- $(MAKE) $(name) &&) true

# cluster is not among them: it needs a Kubernetes.
proof: $(PROOFS) versions image compose ## all that takes longer: other versions, faults, mutants, oldest libraries, images

# The port of the agent's page; empty: 10618 where that is free.
PORT ?=

demo: $(READY) ## a real Kafka that fails on purpose; Ctrl-C ends it, or DEMO_SECONDS=120; PORT=12345 for the page
	@DEMO_PORT=$(PORT) exec $(PY) -m demo

stack: $(READY) ## the demo with Connect, Streams, Spark, two agents, and Prometheus with the rules; Ctrl-C ends it
	@scripts/install-prometheus
	@exec $(PY) -m demo.full_stack

bench: $(READY) ## the speed tables, side by side with Kafka's own tools and Spark's raw read
	@$(PY) -m tests.bench
	@$(PY) -m tests.bench.log_read
	@$(PY) -m tests.bench.audit

generate: $(READY) ## write what is generated from the catalogue
	$(BIN)/kafka-eos-exporter generate
	$(PY) -m scripts.chart_readme

captures: $(READY) ## record anew the answers of real JVMs, Connect, Streams and Spark, which tests read; ARGS=spark for one
	$(PY) -m tests.golden.captures $(ARGS)

telemetry: ## the receiver of client telemetry for brokers, a jar, in build/telemetry; see docs/engines.md
	mvn --batch-mode --quiet -Dstyle.color=never --file=telemetry package

release: $(READY) ## build what is released, twice and with the same bytes; print the tag, and what is missing; publishes nothing
	scripts/build-release $(PY)
	@$(PY) -m scripts.release

lock: $(READY) ## write constraints.txt and docker/requirements*.txt anew from the virtual environment
	@{ sed -n '/^#/p' constraints.txt; $(PY) -m pip freeze --exclude-editable --all | grep -v '^pip==' | sort -f; } > constraints.new
	@mv constraints.new constraints.txt
	@scripts/lock-image $(PY)

weight: ## code lines, modules, lines of tests, docs and generated files
	@$(PYTHON) -m scripts.weight

clean: ## remove what was built here (Kafka's jars stay in the user's cache)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
