"""Every service of docker-compose.yml runs here without Docker, and stops."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.processes.guard import Guard
from mirrors import launcher
from spark_runner.native import loader
from tests.postgres import Postgres, binaries
from tests.services import compose
from tests.services.compose import ROOT
from tests.services.compose_processes import ComposeProcesses
from tests.test_operations import variables_of_the_programs

TOPIC = "services-orders"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[ComposeProcesses]:
    if binaries() is None:
        pytest.skip("PostgreSQL is not installed")
    server = Postgres(guard.environment)
    with Guard() as own:
        house = ComposeProcesses(tmp_path_factory.mktemp("services"), own, server.url)
        try:
            house.start("redis")
            server.start()
            house.processes["migrate"].run(180)
            house.start("web", "worker", "tasks", "watch", "beat")
            yield house
        finally:
            # It overwrites the environment by which the others are found.
            with contextlib.suppress(psutil.NoSuchProcess):
                house.stop("redis")
            own.process_mark.end()
            server.close()


@pytest.fixture(scope="module")
def whole_house(house: ComposeProcesses) -> ComposeProcesses:
    """With both clusters, which not every test needs."""
    house.start("kafka-primary", "kafka-backup")
    return house


@pytest.mark.parametrize("name", compose.ours())
def test_every_service_of_ours_runs_a_make_target_with_variables_that_it_takes(name: str) -> None:
    make, target, *variables = shlex.split(compose.ours()[name]["command"])
    assert make == "make"
    assert target in TARGETS
    for variable in variables:
        assert re.search(rf"^{variable.partition('=')[0]} +\?=", MAKEFILE, re.MULTILINE), variable


@pytest.mark.parametrize("name", compose.ours())
def test_every_variable_of_a_service_is_one_that_the_programs_read(name: str) -> None:
    assert set(compose.environment_of(compose.ours()[name])) <= variables_of_the_programs()


def test_what_a_container_keeps_lies_in_a_volume_that_the_image_gives_to_its_user() -> None:
    assert re.search(r"install -d -o understudy -g understudy /app /data", DOCKERFILE)
    for name, service in compose.ours().items():
        if "/data" in service["command"] + str(service.get("environment")):
            assert [volume.partition(":")[2] for volume in service["volumes"]] == ["/data"], name


def test_the_worker_has_a_name_that_stays_an_init_and_time_to_stop() -> None:
    worker = compose.ours()["worker"]
    assert worker["hostname"] == worker["environment"]["UNDERSTUDY_HOST"]
    assert worker["entrypoint"][0] == "tini"
    assert (ROOT / worker["entrypoint"][-1]).is_file()
    assert int(worker["stop_grace_period"].removesuffix("s")) >= 30


def test_the_image_is_built_from_what_is_there() -> None:
    stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
    for stage, sources in re.findall(
        r"^COPY (?:--from=(\S+) )?(?:--\S+ )*(.+) \S+$", DOCKERFILE, re.MULTILINE
    ):
        if stage:
            # What an earlier stage made: the folder that the engine looks for.
            assert stage in stages
            assert sources == f"/app/{loader.FOLDER.name}"
            continue
        for source in sources.split():
            assert (ROOT / source).exists(), source
    named = re.findall(r"\bmake ([a-z -]+?)$", DOCKERFILE, re.MULTILINE)
    assert {target for words in named for target in words.split()} <= TARGETS
    for package in ("make", "default-jre-headless", "procps", "tini"):
        assert f" {package}" in DOCKERFILE


def test_nothing_that_git_ignores_goes_into_the_image() -> None:
    """What a checkout has made for itself: databases, brokers' data, the key that signs."""
    left = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    made = [word.rstrip("/") for word in (ROOT / ".gitignore").read_text(encoding="utf-8").split()]
    # Compiled Python lies in the caches.
    made.remove("*.pyc")
    patterns = [pattern.removeprefix("**/") for pattern in left]
    assert [one for one in made if not any(fnmatch(one, at) for at in patterns)] == []


def test_an_image_without_an_engine_is_refused_in_a_sentence(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    # As a person calls it: below `make test` it would also name its directory.
    ours = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(
        ["make", "image"],
        cwd=ROOT,
        env={**ours, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode != 0
    assert not done.stdout
    assert done.stderr.splitlines()[0].startswith("No Docker engine answers here")


def test_the_health_checks_of_the_file_come_to_say_yes(
    whole_house: ComposeProcesses, until: Callable[..., float]
) -> None:
    house = whole_house
    for name in ("redis", "kafka-primary", "kafka-backup", "web"):
        until(lambda name=name: house.is_healthy(name), 120, f"{name} is healthy")
    assert house.get("healthz") == (200, "ok\n")


def test_worker_tasks_and_beat_make_it_ready(
    house: ComposeProcesses, until: Callable[..., float]
) -> None:
    until(lambda: house.is_healthy("web"), 120, "web is healthy")
    until(lambda: house.get("readyz")[0] == 200, 120, "it is ready")
    checks = json.loads(house.get("readyz")[1])["checks"]
    assert {check["name"] for check in checks} == {
        "database",
        "redis",
        "beat",
        "reconcile worker",
        "worker",
        "watch worker",
    }


def test_a_record_crosses_and_then_all_of_it_stops_and_leaves_no_process(
    whole_house: ComposeProcesses, until: Callable[..., float]
) -> None:
    house = whole_house
    until(lambda: house.get("readyz")[0] == 200, 120, "it is ready")
    write_a_record(house.kafka["kafka-primary"])
    house.manage("create_person", "ann", "--role", "admin", line="a-word-for-tests\n")
    token = house.manage("create_token", "ann")
    for name, port in house.kafka.items():
        body = {"alias": name.removeprefix("kafka-"), "bootstrap_servers": f"127.0.0.1:{port}"}
        house.api("clusters/", token, body)
    flow = house.api("flows/", token, {"source": "primary", "target": "backup"})
    until(lambda: remote_end(house.kafka["kafka-backup"]) > 0, 120, "the record has crossed")
    until(lambda: house.get("readyz")[0] == 200, 60, "the runner counts as ready")
    path = f"flows/{flow['id']}/"
    until(lambda: house.api(path, token)["observed_state"] == "running", 60, "it is seen to run")

    runner = launcher.read_runner(house.processes["worker"].data / "runners" / "default")
    assert runner is not None
    worker = house.celery_worker()
    assert worker is not None
    worker.kill()
    until(lambda: house.celery_worker() not in (None, worker), 60, "another worker is there")
    assert launcher.is_alive(runner.pid, runner.start_tick), "the runner outlives a worker"

    house.stop("beat", "watch", "tasks", "web", "worker")
    assert not launcher.is_alive(runner.pid, runner.start_tick)
    assert "Runner default stopped." in house.processes["worker"].said()
    house.stop("kafka-primary", "kafka-backup", "redis")
    assert house.process_mark.running_processes() == []


def write_a_record(port: int) -> None:
    servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
    admin = AdminClient(servers)
    for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        future.result(30)
    producer = Producer({**servers, "acks": "all"})
    producer.produce(TOPIC, b"an order")
    assert producer.flush(30) == 0


def remote_end(port: int) -> int:
    """How many offsets the remote topic has; none while it does not exist."""
    config = {"bootstrap.servers": f"127.0.0.1:{port}", "group.id": "services"}
    consumer = Consumer(config)
    try:
        if f"primary.{TOPIC}" not in consumer.list_topics(timeout=5).topics:
            return 0
        tp = TopicPartition(f"primary.{TOPIC}", 0)
        return int(consumer.get_watermark_offsets(tp, timeout=5)[1])
    finally:
        consumer.close()
