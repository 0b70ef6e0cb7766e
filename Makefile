# Understudy: every command a person or CI runs. `make` alone prints this list.

PYTHON ?= python3
VENV   ?= .venv
PY      = $(VENV)/bin/python
PYTEST  = $(PY) -m pytest
RUN    ?=
# The whole suite as four pytest sessions at the same time; 1: as one.
SESSIONS ?= 4

KAFKA_DIR       ?= .kafka/kafka
KAFKA_PORT      ?= 9092
KAFKA_BIND      ?= 127.0.0.1
KAFKA_ADVERTISE ?= 127.0.0.1
REDIS_DIR       ?= .redis
REDIS_PORT      ?= 6379
REDIS_BIND      ?= 127.0.0.1
SHOTS           ?= .shots
SBOM            ?= .sbom/understudy.cdx.json

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Try it
demo: $(VENV)/.runtime ## Run everything on this machine: two Kafka clusters, two flows, live traffic, the dashboard
	@exec $(PY) manage.py demo

demo-check: $(VENV)/.runtime ## The same without a terminal: replicate both ways, compare record by record, stop
	@exec $(PY) manage.py demo --check

shots: $(VENV)/.dev ## Write a picture of every page of the demo (started if none runs) to SHOTS (.shots), and two for the README
	@exec $(PY) manage.py shots --dir "$(SHOTS)" --readme docs/images --chromium "$${UNDERSTUDY_CHROMIUM:-/usr/bin/chromium}"

clean-demo: ## Remove what the demo left in .demo/
	@if [ -x $(PY) ]; then $(PY) manage.py demo --clean; else rm -rf .demo; fi

bench: compiled ## Measure MirrorMaker 2, a plain loop and Understudy side by side, about an hour; QUICK=1: five minutes
	@exec $(PY) manage.py bench $(if $(QUICK),--quick) $(RUN)

bench-distance: compiled ## The same with source or target far away, by a relay of our own, about forty minutes; QUICK=1: five
	@exec $(PY) manage.py bench --distance --write-docs $(if $(QUICK),--quick) $(RUN)

bench-web: $(VENV)/.runtime ## Time pages, lists, scrape and source scan on 500 flows, 50,000 partitions and 30 days of history
	@rm -rf .bench/web && mkdir -p .bench/web
	@export DATABASE_URL="$${BENCH_WEB_DATABASE:-sqlite:///$(CURDIR)/.bench/web/db.sqlite3}"; \
	  $(PY) manage.py migrate -v 0 && $(PY) manage.py seed_scale && $(PY) manage.py bench_web $(RUN)

bench-scale: $(VENV)/.dev ## Time 1,000,000 partitions of 5,000 flows on PostgreSQL, about an hour (RUN="--share 10": a tenth); writes docs/performance-scale.md
	@steps='$(PY) manage.py migrate -v 0 && $(PY) manage.py bench_scale --write-docs $(RUN)'; \
	  if [ -n "$$BENCH_SCALE_DATABASE" ]; then DATABASE_URL="$$BENCH_SCALE_DATABASE" sh -c "$$steps"; \
	  else $(PY) -m tests.postgres sh -c "$$steps"; fi

bench-runs: $(VENV)/.runtime ## Time offset look-ups among a hundred million offset runs (RUN="--rebuild --runs 1000000": a million, read from a topic)
	@rm -rf .bench/runs && mkdir -p .bench/runs
	@export DATABASE_URL="$${BENCH_RUNS_DATABASE:-sqlite:///$(CURDIR)/.bench/runs/db.sqlite3}"; \
	  $(PY) manage.py migrate -v 0 && $(PY) manage.py bench_runs $(RUN)

up: .env ## Run docker-compose.yml; the first time creates .env with secrets of its own
	docker compose up -d --build

.env:
	@bash .ci/compose-secrets .env

##@ Work on it
setup: .compile ## Install the Python environment and the system packages that the tests use; compile the engine

.compile: $(VENV)/.dev system
	@$(PY) -m spark_runner.native.build || true

# Made once for each environment. Without it each Java of Spark takes three times as long to start.
.archive: $(VENV)/.dev system
	@$(PY) -m spark_runner.spark.class_data_archive >/dev/null || true

check: $(VENV)/.dev ## Check format, lint, types, import contracts, migrations, compose file: everything that needs no broker
	@$(MAKE) --no-print-directory -j3 --output-sync=target .check-types .check-the-rest .check-go

.check-types:
	$(PY) -m mypy .

.check-the-rest:
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(VENV)/bin/lint-imports
	$(PY) manage.py makemigrations --check --dry-run
	$(PY) manage.py check
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml

.check-go:
	@bash .ci/check-go deploy/terraform

format: $(VENV)/.dev ## Format the Python files
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

test: $(VENV)/.dev system ## Run what CI runs: the checks above, then the suite on real brokers, Spark and Chromium, without the long runs
	@$(MAKE) --no-print-directory -j5 --output-sync=target .compile .archive .check-types .check-the-rest .check-go
	$(if $(filter 1,$(SESSIONS)),$(PYTEST),$(PY) -m tests.side_by_side) -m "not soak and not long" $(RUN)

test-fast: $(VENV)/.dev ## Test domain rules, pages and API; two brokers where a test needs them, no Spark, no browser
	$(PYTEST) -m "not soak and not long" tests/domain tests/pages tests/mirrors tests/api tests/test_architecture.py $(RUN)

test-long: $(VENV)/.dev system ## Run the tests that `make test` leaves out to end within 25 minutes: what it shows, at greater length
	$(PYTEST) -m "long and not soak" $(RUN)

test-kills: $(VENV)/.dev ## kill -9 each process in turn, then twenty at random, under load; compare at the end
	$(PYTEST) tests/journeys/test_kills.py --timeout 3600 -m "" $(RUN)

test-crashes: $(VENV)/.dev ## kill -9 240 copiers (UNDERSTUDY_CRASHES=60 of each kind) and 20 runners, freeze 50, restart brokers, cut connections; compare
	UNDERSTUDY_CRASHES=60 UNDERSTUDY_ZOMBIES=25 UNDERSTUDY_RUNNER_KILLS=20 $(PYTEST) tests/wire/test_crashes.py \
	  tests/wire/test_broken_connections.py tests/wire/test_three_brokers.py tests/spark/test_crashes.py --timeout 3600 -m "" -s $(RUN)

test-takeover: $(VENV)/.dev ## Run a real MirrorMaker 2, then a flow, then MirrorMaker 2 again in mid-stream: nothing lost, little repeated
	$(PYTEST) tests/spark/test_mm2_and_back.py --timeout 900 -m "" $(RUN)

test-older: $(VENV)/.dev ## Copy from, to and within real brokers of Kafka 4.4, 4.0, 3.9 and 2.8 (with ZooKeeper), which it fetches
	$(PYTEST) tests/wire/test_older_brokers.py --timeout 900 -m "" $(RUN)

test-matrix: $(VENV)/.dev ## Every sync task, failover and failback between real brokers of Kafka 2.8, 3.9, 4.0 and 4.4 (RUN="-k 2.8.2-to-4.4.0" narrows it)
	$(PYTEST) tests/versions --timeout 3600 -m "" $(RUN)

test-failover: $(VENV)/.dev ## kill -9 the source under load twenty times; compare loss and re-reads with the prediction
	$(PYTEST) tests/journeys/test_judged_failover.py --timeout 3600 -m "" -s $(RUN)

test-judge: $(VENV)/.dev ## Sixty rounds by seed: random states of real clusters, statements compared with an independent count (SEED=7: that one)
	UNDERSTUDY_JUDGE_SEED="$(SEED)" UNDERSTUDY_JUDGE_ROUNDS="$(or $(ROUNDS),60)" $(PYTEST) tests/judge -k "many_rounds or verdicts" --timeout 21600 -m "" -s $(RUN)

test-native: $(VENV)/.dev ## Property tests of the C functions, thirty times as many, under the address and undefined-behavior sanitizers
	@mkdir -p .compiled
	$${CC:-cc} -shared -fPIC -O1 -g -std=c11 -fsanitize=address,undefined -fno-sanitize-recover=undefined \
	  -I"$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("include"))')" spark_runner/c/*.c -o .compiled/sanitized.so
	UNDERSTUDY_NATIVE="$(CURDIR)/.compiled/sanitized.so" UNDERSTUDY_LAWS=30 PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 \
	  LD_PRELOAD="$$($${CC:-cc} -print-file-name=libasan.so)" $(PYTEST) tests/wire/test_native_laws.py tests/wire/test_native_merging.py -p no:cacheprovider --timeout 1800 $(RUN)

test-schema: $(VENV)/.dev ## schemathesis: generated requests to every operation of the API for ten minutes, compared with the OpenAPI document
	UNDERSTUDY_SCHEMA_SECONDS=600 $(PYTEST) tests/api/test_schema.py --timeout 1800 -m "" $(RUN)

test-chart: $(VENV)/.dev ## Build Helm from its Go module, lint the chart, validate what it renders, compare with docs/kubernetes
	$(PYTEST) tests/test_helm.py -m "" $(RUN)

test-terraform: $(VENV)/.dev .check-go ## Build Terraform from its Go module if there is none, and run the provider's tests in Go and with it
	cd deploy/terraform && bash ../../.ci/go-quick test ./...
	@bash .ci/terraform
	$(PYTEST) tests/terraform -m "" $(RUN)

test-soak: $(VENV)/.dev ## Long runs: the whole product for twenty minutes, storms of faults and kill -9, failovers (RUN="-k name" narrows it)
	$(PYTEST) -m soak --timeout 7200 $(RUN)

system: ## Install Chromium, PostgreSQL, Java and a C compiler from the system's packages when they are missing
	@bash .ci/system-packages

##@ Run one service (docker-compose.yml runs these)
migrate: $(VENV)/.runtime ## Migrate the database (DATABASE_URL)
	@exec $(PY) manage.py migrate --noinput

run-web: $(VENV)/.runtime ## Pages and API on UNDERSTUDY_BIND (127.0.0.1:8000)
	@export UNDERSTUDY_SECRET_KEY="$${UNDERSTUDY_SECRET_KEY:-$$($(PY) -c 'import secrets; print(secrets.token_urlsafe(48))')}"; \
	  exec $(PY) -m controlplane.cli web

run-worker: $(VENV)/.runtime ## Supervision: start the Spark runner of this machine and reconcile its flows
	@exec $(PY) -m controlplane.cli worker supervision

run-tasks: $(VENV)/.runtime ## Work of the control plane on Kafka: connection tests, sync tasks, simulations, failovers
	@exec $(PY) -m controlplane.cli worker tasks

run-watch: $(VENV)/.runtime ## History, alert rules, notifications; it calls no Kafka
	@exec $(PY) -m controlplane.cli worker watch

stop-runners: $(VENV)/.runtime ## Let the runners of this machine commit and end; stop run-worker first, since it starts others
	@exec $(PY) manage.py stop_runners

run-beat: $(VENV)/.runtime ## Celery beat: the schedule of periodic tasks
	@exec $(PY) -m controlplane.cli beat

run-kafka: $(VENV)/.runtime ## One Kafka broker: KAFKA_DIR, KAFKA_PORT (9092), KAFKA_BIND, KAFKA_ADVERTISE (127.0.0.1)
	@exec $(PY) manage.py kafka "$(KAFKA_DIR)" --port $(KAFKA_PORT) --bind $(KAFKA_BIND) --advertise $(KAFKA_ADVERTISE)

run-redis: $(VENV)/.runtime ## The queue (Valkey): REDIS_DIR, REDIS_PORT (6379), REDIS_BIND (127.0.0.1), UNDERSTUDY_REDIS_PASSWORD
	@exec $(PY) manage.py redis "$(REDIS_DIR)" --port $(REDIS_PORT) --bind $(REDIS_BIND)

##@ Build
package: $(VENV)/.dev ## Build the wheel with the command `understudy` in dist/
	@$(PY) -m build --wheel --no-isolation -o dist .

terraform-provider: ## Build the Terraform provider into dist/ (needs Go)
	@mkdir -p dist
	cd deploy/terraform && go build -trimpath -ldflags "-X main.version=$$(sed -n 's/^version = "\(.*\)"/\1/p' ../../pyproject.toml)" -o ../../dist/terraform-provider-understudy .

image: ## Build the image of docker-compose.yml (needs a Docker engine)
	@timeout 20 docker info >/dev/null 2>&1 || { echo "No Docker engine answers here, and the image needs one to be built; every service also runs without: make run-web, make run-worker, …" >&2; exit 1; }
	docker build -t understudy $${UNDERSTUDY_PYTHON_IMAGE:+--build-arg "PYTHON_IMAGE=$$UNDERSTUDY_PYTHON_IMAGE"} .

check-images: ## Check that .env names each image of docker-compose.yml by its digest
	@bash .ci/image-digests .env

test-image: $(VENV)/.dev ## Carry out the steps of the Dockerfile in a clean root of Debian (needs root and debootstrap), run all services from it
	@command -v debootstrap >/dev/null || { echo "debootstrap is not installed: apt-get install debootstrap" >&2; exit 1; }
	$(PY) -m tests.image.clean_root "$(CURDIR)/.bench/image"
	UNDERSTUDY_IMAGE_ROOT="$$(ls -d $(CURDIR)/.bench/image/stage-* | tail -1)" $(PYTEST) tests/services/test_services.py -m "" $(RUN)

runtime: $(VENV)/.runtime ## Only the Python packages that running needs

scan-secrets: $(VENV)/.dev ## Look for secrets in the tracked files; .secrets.baseline has the known examples
	@git ls-files -z | xargs -0 $(VENV)/bin/detect-secrets-hook --baseline .secrets.baseline
	@echo "No secret is in the tracked files."

compiled: $(VENV)/.runtime ## Compile the engine's hot modules, for a fifth to a half less processor time; needs a C compiler and Python's headers
	@$(PY) -c "import mypyc, setuptools" 2>/dev/null || bash .ci/install-packages $(PY) requirements-compile.txt
	@$(PY) -m spark_runner.native.build || true

kafka-jars: $(VENV)/.runtime ## Fetch and verify Kafka's published jars into the cache, and create Java's class archive
	@$(PY) -c "from controlplane.demo.kafka.broker import prepare; print(prepare())"

static: $(VENV)/.runtime ## Collect and hash the static files for production
	@$(PY) manage.py collectstatic --noinput

requirements: $(VENV)/.dev ## Pin the requirements again from pyproject.toml
	$(PY) -m pip install -q --upgrade uv
	echo uv | $(PY) -m uv pip compile -q --no-header --no-annotate --generate-hashes --universal --python-version 3.11 - -o requirements-install.txt
	$(PY) -m uv pip compile -q --no-header --no-annotate --generate-hashes --universal --python-version 3.11 pyproject.toml -o requirements.txt
	$(PY) -m uv pip compile -q --no-header --no-annotate --generate-hashes --universal --python-version 3.11 -c requirements.txt --extra dev --extra mcp --extra otel pyproject.toml -o requirements-dev.txt
	printf 'mypy>=1.18\nsetuptools>=80\n' | $(PY) -m uv pip compile -q --no-header --no-annotate --generate-hashes --universal --python-version 3.11 \
	  -c requirements-dev.txt - -o requirements-compile.txt

docs: $(VENV)/.dev ## Build the site of the documentation in .site/; each link is checked
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet
	@echo "Wrote .site/index.html."

sbom: $(VENV)/.dev ## Write the bill of materials of the installed runtime packages as CycloneDX JSON, with hashes, to SBOM (.sbom/understudy.cdx.json)
	@mkdir -p "$(dir $(SBOM))"
	@$(VENV)/bin/cyclonedx-py requirements requirements.txt --pyproject pyproject.toml --output-reproducible --validate --of JSON -o "$(SBOM)" 2>/dev/null
	@echo "Wrote $(SBOM)."

audit-packages: $(VENV)/.dev ## Compare the pinned packages with the public database of vulnerabilities; needs a network that reaches it
	@$(PY) -m pip install -q pip-audit
	@$(VENV)/bin/pip-audit --require-hashes --disable-pip -r requirements.txt

help: ## Print this list
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z-]+:.*##/ {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/bin/python:
	@bash .ci/new-environment "$(PYTHON)" "$(VENV)"

$(VENV)/.runtime: requirements.txt | $(VENV)/bin/python
	@echo "Installing the Python packages ..."
	@bash .ci/install-packages $(PY) requirements.txt
	@touch $@

$(VENV)/.dev: requirements-dev.txt | $(VENV)/bin/python
	@echo "Installing the Python packages for development ..."
	@bash .ci/install-packages $(PY) requirements-dev.txt
	@touch $@ $(VENV)/.runtime

.PHONY: up .compile .archive .check-types .check-the-rest .check-go demo demo-check shots clean-demo bench bench-distance bench-web bench-scale bench-runs setup check format test test-fast test-long test-kills test-crashes test-takeover test-older test-matrix test-failover test-judge test-native test-schema test-chart test-terraform test-soak test-image system requirements sbom audit-packages scan-secrets docs compiled help migrate \
  run-web run-worker run-tasks run-watch run-beat stop-runners run-kafka run-redis image terraform-provider check-images runtime kafka-jars static package
