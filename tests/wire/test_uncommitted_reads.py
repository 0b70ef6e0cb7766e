"""`consumer.isolation.level=read_uncommitted`, as MirrorMaker 2: everything is replicated."""

from __future__ import annotations

import pytest

from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.record_lane.epoch import RecordLane
from spark_runner.kafka_protocol import compression
from spark_runner.kafka_protocol.records import Record
from tests.wire.stops import NOW
from tests.wire.world import Flow, Side, bare, unique

LANES = {"raw": RawCopier, "record": RecordLane}


@pytest.mark.parametrize("lane", LANES)
def test_records_of_open_and_aborted_transactions_cross_and_are_in_the_map(
    source: Side, target: Side, lane: str
) -> None:
    topic = unique("uncommitted")
    source.make(topic)

    def rows(word: bytes) -> list[Record]:
        return [Record(0, NOW + at, word, b"%d" % at) for at in range(4)]

    ended, transaction_still_open = (
        source.transaction(unique("tx")),
        source.transaction(unique("tx")),
    )
    ended.write(topic, 0, rows(b"committed"), codec=compression.LZ4)
    ended.end(commit=True)
    transaction_still_open.write(topic, 0, rows(b"open"))
    ended.write(topic, 0, rows(b"aborted"))
    ended.end(commit=False)
    source.write(topic, 0, rows(b"plain"))
    flow = Flow(
        source, target, commit_interval_ms="50", consumer_isolation_level="read_uncommitted"
    )
    remote = flow.add(topic)
    end = source.ends(topic)[0]
    assert source.ends(topic, committed=True)[0] < end, "a transaction is open"
    result, _ = flow.copy(LANES[lane](), ends={(topic, 0): end})  # type: ignore[arg-type]
    assert (result.ended_because, result.errors) == ("stop", ()), result
    upstream = source.read(topic, committed=False)
    downstream = target.read(remote)
    assert bare(downstream) == bare(upstream)
    assert [row.key for row in upstream[::4]] == [b"committed", b"open", b"aborted", b"plain"]
    if lane == "raw":
        pairs = {
            run.upstream + at: run.downstream + at
            for run in flow.runs(topic)
            for at in range(run.length)
        }
        assert pairs == {
            above.offset: below.offset for above, below in zip(upstream, downstream, strict=True)
        }
    # What becomes of the open one afterwards changes nothing of what has crossed.
    transaction_still_open.end(commit=False)
    source.write(topic, 0, rows(b"later"))
    flow.copy(LANES[lane](), ends={(topic, 0): source.ends(topic)[0]})  # type: ignore[arg-type]
    assert bare(target.read(remote)) == bare(source.read(topic, committed=False))
