"""Job files: what one process writes, the other reads unchanged."""

from __future__ import annotations

from mirrors.domain.flows.lanes import LaneFigure
from mirrors.domain.runners.job_files import (
    JobSpec,
    JobStatus,
    PartitionStatus,
    RunnerStatus,
    SliceStatus,
    TopicStatus,
)
from tests.domain.cases import cluster


def test_a_spec_survives_its_file() -> None:
    spec = JobSpec(
        job=1, flow=2, name="a->b", generation=3, desired="paused",
        source=cluster("a", properties={"request.timeout.ms": "5000"}),
        target=cluster("b", security_protocol="SSL", ssl_ca="env:CA"),
        properties={"topics": "orders"},
    )  # fmt: skip
    assert JobSpec.from_json(spec.to_json()) == spec


def test_a_status_survives_its_file() -> None:
    status = JobStatus(
        job=1, flow=2, generation=3, state="degraded", reason="r", started_at=1, as_of=2,
        records=3, bytes=4, warnings=("w",),
        topics=(TopicStatus(topic="t", remote_topic=None, state="skipped", reason="r",
                            partitions=1),),
        partitions=(PartitionStatus(
            topic="t", partition=0, remote_topic="a.t", state="lagging", reason="", position=None,
            source_end=1, source_stable_end=1, time_lag_ms=None, lane="repack", why="small",
            as_of=2),),
        slices=(SliceStatus(
            index=0, state="copying", reason="", epoch=1, partitions=1, records=1, bytes=1,
            records_per_second=0.5, bytes_per_second=0.0, pid=None, as_of=2),),
        lanes=(LaneFigure(lane="repack", why="small", batches=1, records=2, bytes=3),),
    )  # fmt: skip
    assert JobStatus.from_json(status.to_json()) == status


def test_a_runner_from_before_an_upgrade_told_lane_and_reason_in_one_word() -> None:
    facts = {
        "topic": "t", "partition": 0, "remote_topic": "a.t", "state": "in_sync", "reason": "",
        "position": 1, "source_end": 1, "source_stable_end": 1, "time_lag_ms": 0, "as_of": 2,
    }  # fmt: skip
    for word, lane, why in (("raw", "raw", ""), ("repack: small: or so", "repack", "small: or so")):
        row = PartitionStatus.from_dict({**facts, "lane": word})
        assert (row.lane, row.why) == (lane, why)


def test_a_runners_status_survives_its_file() -> None:
    status = RunnerStatus(
        name="r", host="h", pid=1, start_tick=2, state="ready", reason="", master="local[4]",
        slots=4, slots_used=1, application_id=None, started_at=1, as_of=2, flows=(1, 2),
    )  # fmt: skip
    assert RunnerStatus.from_json(status.to_json()) == status
