"""A real standalone Spark cluster of two workers: secrets, pages, kills under load, few slots."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from confluent_kafka.admin import AdminClient

from controlplane.demo.kafka.broker import KafkaBroker, Listener
from controlplane.demo.processes.guard import Guard
from controlplane.demo.processes.ports import free_port
from mirrors import launcher
from tests.spark.lab import Flow, Lab, wait_for
from tests.spark.reading import records
from tests.spark.standalone import SHARED, StandaloneCluster, quick_executors, standalone_cluster
from tests.spark.test_commands import assert_same, load
from tests.spark.test_spark_settings import written

PASSWORD = "a-password-that-only-executors-know"
VARIABLE = "KAFKA_TEST_STANDALONE_PASSWORD"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Of each of the two workers.
CORES = 2


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, runner_env: dict[str, str]
) -> Iterator[StandaloneCluster]:
    env = {**runner_env, VARIABLE: PASSWORD, "SPARK_LOCAL_IP": "127.0.0.1"}
    # Executors find our package in what the runner sends, not in a path of this checkout.
    env.pop("PYTHONPATH", None)
    with standalone_cluster(tmp_path_factory.mktemp("cluster"), env, cores=CORES) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def port() -> int:
    """Of Spark's own pages."""
    return free_port()


@pytest.fixture(scope="module")
def far(
    clusters: tuple[str, str],
    cluster: StandaloneCluster,
    port: int,
    tmp_path_factory: pytest.TempPathFactory,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    """A runner whose slices run on that cluster, with settings of an operator's."""
    text = (
        f"{SHARED}spark.executor.memory 600m\nspark.driver.memory 600m\n"
        f"spark.ui.enabled true\nspark.ui.port {port}\n"
        f"{quick_executors()}"
    )
    settings = written(tmp_path_factory.mktemp("conf"), text)
    env = {**runner_env, **settings, VARIABLE: PASSWORD, "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("PYTHONPATH", None)
    lab = Lab(*clusters, tmp_path_factory.mktemp("runner"), env)
    lab.start_runner(cluster.master)
    yield lab
    lab.stop_runner()


@pytest.fixture
def guarded_target(tmp_path: Path, guard: Guard) -> Iterator[KafkaBroker]:
    """A broker whose second listener demands a login."""
    prefix = "listener.name.login"
    jaas = f'{PLAIN} required username="u" password="{PASSWORD}" user_u="{PASSWORD}";'
    broker = KafkaBroker(
        tmp_path / "guarded",
        name="guarded",
        heap="512m",
        jvm=("-XX:TieredStopAtLevel=1",),
        environment=guard.environment,
        listeners=[Listener(name="LOGIN", protocol="SASL_PLAINTEXT", port=free_port())],
        properties={
            f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
            f"{prefix}.plain.sasl.jaas.config": jaas,
        },
    )
    broker.start()
    yield broker
    broker.kill()


def test_a_flow_runs_on_a_master_and_two_workers_where_secrets_are_resolved(
    far: Lab, guarded_target: KafkaBroker, cluster: StandaloneCluster
) -> None:
    flow = far.flow(tasks_max="4")
    flow.job.target.__dict__.update(
        bootstrap_servers=guarded_target.bootstrap_of("LOGIN"),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="u",
        sasl_password=f"env:{VARIABLE}",
    )
    topic = far.create(flow.topic("t"), 8)
    for partition in range(8):
        far.write(topic, range(200), partition)
    flow.start().wait_in_sync(topic, seconds=120)
    _same(far, guarded_target, topic, flow.remote(topic))
    _nothing_secret_is_shown(far)
    for executor in cluster.executors():
        assert "-Xmx600M" in executor.cmdline()
    flow.stop()


def test_spark_shows_its_pages_when_asked_to_and_names_jobs_by_flow_and_epoch(
    far: Lab, port: int
) -> None:
    [application] = ask(port, "")
    held = dict(ask(port, f"/{application['id']}/environment")["sparkProperties"])
    assert (held["spark.driver.memory"], held["spark.eventLog.enabled"]) == ("600m", "false")
    assert (held["spark.scheduler.mode"], held["spark.ui.killEnabled"]) == ("FAIR", "false")

    flow = far.flow(tasks_max="2")
    far.create(flow.topic("t"), 2)
    flow.start().wait(lambda s: s.state == "running" and len(s.slices) == 2)
    for index in range(2):
        wait_for(lambda at=index: is_named(far, port, flow, at), seconds=20, what="the job's name")
    flow.stop()
    wait_for(lambda: not jobs_of(far, port), seconds=20, what="the end of all jobs")


def ask(port: int, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}/api/v1/applications{path}", timeout=60) as answer:
        return json.load(answer)


def jobs_of(lab: Lab, port: int) -> list[tuple[str, str]]:
    """Group and description of what Spark itself says to run now."""
    status = launcher.read_runner(lab.directory)
    assert status is not None
    jobs = ask(port, f"/{status.application_id}/jobs?status=running")
    return [(job.get("jobGroup", ""), job.get("description", "")) for job in jobs]


def is_named(lab: Lab, port: int, flow: Flow, index: int) -> bool:
    """Which epoch it is depends on when one asks: the first ones are short."""
    group = rf"flow {flow.job.flow} slice {index} epoch (\d+) of job {flow.job.job}"
    words = f"{flow.job.name} slice {index} epoch"
    return any(
        (found := re.fullmatch(group, one)) is not None and said == f"{words} {found[1]}"
        for one, said in jobs_of(lab, port)
    )


def test_an_executor_killed_under_load_costs_no_record_and_repeats_none(
    far: Lab, cluster: StandaloneCluster
) -> None:
    flow, topic = _copying(far, tasks_max="4")
    with load(far, topic, 8):
        _all_move(flow, topic)
        victim = cluster.executors()[0]
        victim.kill()
        wait_for(lambda: _two_without(cluster, victim), what="another executor")
        _all_move(flow, topic)
    flow.wait_in_sync(topic, seconds=120)
    assert_same(far, flow, topic)
    flow.stop()


def test_a_flow_of_more_tasks_than_slots_goes_on_when_a_worker_is_lost_with_half_of_them(
    far: Lab, cluster: StandaloneCluster
) -> None:
    # A flow is cut into as many slices as executors offer slots when it begins.
    wait_for(lambda: _slots(far) == 2 * CORES, what="the second executor")
    flow, topic = _copying(far, tasks_max="8")
    assert len(flow.wait(lambda s: s.slices).slices) == 2 * CORES
    with load(far, topic, 8):
        _all_move(flow, topic)
        cluster.lose_worker()
        # Four slices in two slots.
        flow.wait(lambda s: s.state == "running" and "take turns" in s.reason)
        _all_move(flow, topic)
        new = far.create(flow.topic("new"), 2)
        far.write(new, range(50), 1)
        flow.wait_in_sync(new, seconds=40)
    cluster.add_worker()
    flow.wait_in_sync(topic, new, seconds=120)
    assert_same(far, flow, topic, new)
    flow.stop()


def _copying(lab: Lab, **settings: str) -> tuple[Flow, str]:
    flow = lab.flow(**settings)
    topic = lab.create(flow.topic("t"), 8)
    flow.start().wait_state("running")
    return flow, topic


def _slots(lab: Lab) -> int:
    status = launcher.read_runner(lab.directory)
    return 0 if status is None else status.slots


def _two_without(cluster: StandaloneCluster, dead: psutil.Process) -> bool:
    executors = cluster.executors()
    return len(executors) == 2 and dead not in executors


def _all_move(flow: Flow, topic: str) -> None:
    """Until more of every partition has crossed."""
    # What was on its way may still come.
    time.sleep(0.5)
    status = flow.wait(lambda s: s.partitions)
    before = {row.partition: row.position or 0 for row in status.partitions if row.topic == topic}
    flow.wait(
        lambda s: all(
            (row.position or 0) > before[row.partition]
            for row in s.partitions
            if row.topic == topic
        ),
        seconds=60,
    )


def _same(lab: Lab, target: KafkaBroker, topic: str, remote: str) -> None:
    assert AdminClient({"bootstrap.servers": target.bootstrap}).list_topics(timeout=10)
    assert records(target.bootstrap, remote) == lab.read(topic)


def _nothing_secret_is_shown(lab: Lab) -> None:
    runner = psutil.Process(lab.process.pid)
    for process in (runner, *runner.children(recursive=True)):
        if process.status() != psutil.STATUS_ZOMBIE:
            assert PASSWORD not in " ".join(process.cmdline())
    for path in lab.directory.rglob("*"):
        if path.is_file():
            assert PASSWORD.encode() not in path.read_bytes(), path
