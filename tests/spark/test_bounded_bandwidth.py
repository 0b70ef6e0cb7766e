"""Runs with an end and a bandwidth limit, in a runner: the flow's status and its records."""

from __future__ import annotations

import dataclasses
import os
import time

from spark_runner.ipc.messages import Figures
from spark_runner.slices.bandwidth import BandwidthShares
from tests.spark.lab import Lab


def test_a_run_stops_at_the_end_offsets_and_the_next_run_continues(lab: Lab) -> None:
    flow = lab.flow(run_until="end", tasks_max="2")
    topic = lab.create(flow.topic("t"), 3)
    lab.write(topic, range(40), 0)
    lab.write(topic, range(30), 1)
    status = flow.start().wait_state("stopped")
    assert status.finished
    assert status.reason.startswith("Reached the ends as of ")
    lab.write(topic, range(5), 2)
    copied = lab.read(flow.remote(topic), target=True)
    assert [len(copied.get(partition, [])) for partition in range(3)] == [40, 30, 0]
    flow.remove()
    time.sleep(0.5)
    flow.restart()
    flow.start().wait_state("stopped")
    assert lab.read(flow.remote(topic), target=True) == lab.read(topic)


def test_a_run_until_a_moment_ends_at_the_first_record_that_is_not_older(lab: Lab) -> None:
    flow = lab.flow(run_until="1700000005000")
    topic = lab.create(flow.topic("t"), 1, retention_ms="-1")
    rows = [
        {"value": b"%d" % number, "timestamp": 1_700_000_000_000 + number * 1000}
        for number in range(10)
    ]
    lab.write(topic, rows)
    status = flow.start().wait_state("stopped")
    assert status.reason == "Reached the offsets of 2023-11-14 22:13:25 UTC."
    [copied] = lab.read(flow.remote(topic), target=True).values()
    assert copied == lab.read(topic)[0][:5]


def test_a_quota_that_throttles_a_slice_is_what_holds_the_flow_back() -> None:
    sharing, words = BandwidthShares(), "A quota on cluster backup throttles this client."
    figures = Figures(as_of=0, pid=1, state="copying", quota=words)
    sharing.record(0, figures, 1_000)
    sharing.record(1, dataclasses.replace(figures, quota=""), 1_000)
    assert sharing.reason(2_000) == words
    assert sharing.reason(60_000) == "", "the slice says nothing any more"
    sharing.record(0, dataclasses.replace(figures, quota=""), 2_000)
    assert sharing.reason(2_000) == ""


def test_a_limit_holds_the_lag_says_so_and_is_lifted_without_a_restart(lab: Lab) -> None:
    flow = lab.flow(bandwidth_limit_bytes="300000", tasks_max="2")
    topic = lab.create(flow.topic("t"), 2)
    # All of it in one slice: the other one leaves it the whole limit.
    lab.write(topic, [{"value": os.urandom(10_000)} for _ in range(400)], 0)
    status = flow.start().wait(lambda s: "Limited to 300000 bytes/s" in s.reason)
    held = flow.wait(lambda s: any("Limited to" in row.reason for row in s.partitions))
    assert status.state == held.state == "running"
    before = flow.wait(lambda s: s.bytes > 0)
    began = time.monotonic()
    after = flow.wait(lambda s: s.bytes - before.bytes > 600_000)
    rate = (after.bytes - before.bytes) / (time.monotonic() - began)
    assert rate < 480_000
    assert rate > 180_000, "half the limit would be 150,000"
    epochs = [row.epoch for row in after.slices]
    flow.change(properties={"bandwidth.limit.bytes": "100000000"})
    began = time.monotonic()
    done = flow.wait_in_sync(topic)
    assert time.monotonic() - began < 6
    assert [row.epoch for row in done.slices] == epochs, "nothing was started again"
    assert done.generation == 2
    flow.stop()
