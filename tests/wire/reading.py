"""The source side of a slice alone, turn by turn."""

from __future__ import annotations

from spark_runner.engine import setup
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.source.reader import Intake
from spark_runner.engine.source.throttle import Throttle
from tests.wire.world import Driver, Flow


def never(track: Track, verdict: Verdict) -> None:
    raise AssertionError(f"{track.name}: {verdict.reason}")


def reading(flow: Flow) -> tuple[Intake, Track]:
    """Of a flow with one partition; nothing was asked yet."""
    work = flow.work()
    track = setup.track_of(work.partitions[0], {})
    limits = setup.limits_of(
        {},
        brokers=1,
        isolation_level="read_committed",
        newest=17,
        memory_bytes=64 << 20,
        request_s=20.0,
    )
    intake = Intake(
        flow.source.client,
        [track],
        setup.arenas_for(limits, brokers=1),
        limits,
        offer=lambda _track: None,
        stop=never,
        throttle=Throttle(work, Driver()),
    )
    return intake, track
