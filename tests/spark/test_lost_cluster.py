"""A Spark cluster whose master or workers die: the runner reports it soon, and recovers."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrors import launcher
from mirrors.domain.runners.job_files import RunnerStatus
from tests.spark.lab import Flow, Lab, wait_for
from tests.spark.standalone import SHARED, StandaloneCluster, standalone_cluster
from tests.spark.test_spark_settings import written

# What is wrong must show within this time.
SOON_S = 30.0


@pytest.fixture
def cluster(tmp_path: Path, runner_env: dict[str, str]) -> Iterator[StandaloneCluster]:
    env = {**runner_env, "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("PYTHONPATH", None)
    with standalone_cluster(tmp_path / "cluster", env, workers=1, cores=2) as cluster:
        yield cluster


@pytest.fixture
def lab(
    clusters: tuple[str, str],
    cluster: StandaloneCluster,
    tmp_path: Path,
    runner_env: dict[str, str],
) -> Iterator[Lab]:
    settings = written(tmp_path / "conf", SHARED)
    env = {**runner_env, **settings, "SPARK_LOCAL_IP": "127.0.0.1"}
    env.pop("PYTHONPATH", None)
    lab = Lab(*clusters, tmp_path / "runner", env)
    lab.start_runner(cluster.master)
    yield lab
    lab.stop_runner()


def said(lab: Lab) -> RunnerStatus:
    status = launcher.read_runner(lab.directory)
    assert status is not None
    return status


def wait_until(lab: Lab, state: str, words: str = "", seconds: float = SOON_S) -> RunnerStatus:
    def found() -> RunnerStatus | None:
        status = said(lab)
        return status if status.state == state and words in status.reason else None

    status = wait_for(found, seconds=seconds, what=f"{state} ({words}), not {said(lab)}")
    assert status is not None
    # A fresh report: not the last words of a runner that hangs.
    assert time.time() * 1000 - status.as_of < 10_000
    return status


def copying(lab: Lab) -> tuple[Flow, str]:
    flow = lab.flow(tasks_max="2")
    topic = lab.create(flow.topic("t"), 2)
    lab.write(topic, range(50), 0)
    flow.start().wait_in_sync(topic, seconds=120)
    return flow, topic


def test_a_dead_cluster_has_no_slots_and_a_new_master_is_registered_with(
    lab: Lab, cluster: StandaloneCluster
) -> None:
    assert wait_until(lab, "ready").slots == 2
    flow, topic = copying(lab)

    # Workers alone: the master replaces what they ran as soon as one is back.
    cluster.lose_worker()
    assert wait_until(lab, "degraded", "No Spark executor is alive").slots == 0
    flow.wait_state("degraded", seconds=SOON_S)
    cluster.add_worker()
    assert wait_until(lab, "ready", seconds=90).slots == 2
    lab.write(topic, range(50, 60))
    flow.wait_in_sync(topic, seconds=120)

    # A master that is suspended accepts connections and never answers.
    cluster.processes[0].send_signal(signal.SIGSTOP)
    wait_until(lab, "degraded", "no answer within")
    cluster.processes[0].send_signal(signal.SIGCONT)
    assert wait_until(lab, "ready").slots == 2

    # The master alone: what runs goes on.
    cluster.kill_master()
    status = wait_until(lab, "degraded", "No Spark master responds")
    assert "connection refused" in status.reason
    assert "Running slices continue" in status.reason
    assert status.slots == 2
    lab.write(topic, range(60, 70))
    flow.wait_in_sync(topic, seconds=60)

    # Both.
    cluster.lose_worker()
    status = wait_until(lab, "degraded", "no executor is alive")
    assert "No Spark master responds" in status.reason
    assert status.slots == 0
    flow.wait_state("degraded", seconds=SOON_S)

    # A master without a memory: the runner ends, so that the next one registers.
    process = lab.process
    cluster.start_master()
    cluster.add_worker()
    wait_for(
        lambda: not launcher.is_alive(process.pid, process.start_tick),
        seconds=60,
        what="the end of the runner",
    )
    assert "restarted and does not know this application" in lab.exit_reason()
    lab.start_runner(cluster.master)
    assert wait_until(lab, "ready", seconds=90).slots == 2
    lab.write(topic, range(70, 80))
    flow.wait_in_sync(topic, seconds=120)
    copies = lab.read(flow.remote(topic), target=True)
    assert [len(rows) for rows in copies.values()] == [80, 0]
    flow.stop()
