"""The cells of `make bench-distance`: one or both clusters behind a relay."""

from __future__ import annotations

import dataclasses

from controlplane.bench.distance.relay import NetworkProfile, Side
from controlplane.bench.workload.record_shapes import Shape
from controlplane.bench.workload.scenarios import OPPONENT, OURS, Scenario, alternating

# The interval of the figures; the other settings are the defaults.
PROPERTIES = {"commit.interval.ms": "1000"}
# Limits of a Linux that nobody tuned: a connection has at most so much on its way.
UNTUNED_WINDOW = 6 << 20
_PAIR = (OPPONENT, OURS)
_SIDES: tuple[Side, ...] = ("target", "source")
_ALL = (OPPONENT, OURS, "mm2-default")
_TARGET_100 = NetworkProfile(far="target", rtt_ms=100)
_CENTRE = Scenario(
    name="near",
    line=NetworkProfile(far="target", rtt_ms=0),
    backlog_mb=3_000,
    warm_s=10.0,
    window_s=15.0,
    contenders=_PAIR,
)


def quick_distance_scenarios() -> list[Scenario]:
    """Five minutes: each side 100 ms away. So few megabytes need no memory to be prepared."""
    short = dataclasses.replace(_CENTRE, backlog_mb=950, warm_s=4.0, window_s=10.0)
    return [
        dataclasses.replace(short, name="target-100ms", line=_TARGET_100, contenders=_ALL),
        dataclasses.replace(
            short,
            name="source-100ms",
            line=NetworkProfile(far="source", rtt_ms=100),
            contenders=_PAIR,
        ),
    ]


def distance_scenarios() -> list[Scenario]:
    """Forty minutes: distance from each side, then one factor at a time 100 ms away."""
    return alternating(_distance_cells())


def _distance_cells() -> list[Scenario]:
    return [
        _CENTRE,
        *(
            _cell(f"{far}-{rtt}ms", NetworkProfile(far=far, rtt_ms=rtt))
            for rtt in (10, 50, 100, 200)
            for far in _SIDES
        ),
        _cell("both-100ms", NetworkProfile(far="both", rtt_ms=100)),
        _cell("target-100ms-tls", _TARGET_100, tls=True),
        _cell("target-100ms-1", _TARGET_100, partitions=1),
        _cell("target-100ms-200", _TARGET_100, partitions=200),
        _cell("target-100ms-starved", _TARGET_100, shape=Shape(batch_bytes=7_200)),
        *(
            _cell(f"{far}-{rtt}ms-{mbit}mbit", NetworkProfile(far=far, rtt_ms=rtt, mbit_s=mbit))
            for rtt, mbit in ((80, 1_000), (100, 100))
            for far in _SIDES
        ),
        *(
            _cell(
                f"{far}-100ms-untuned",
                NetworkProfile(far=far, rtt_ms=100, window_bytes=UNTUNED_WINDOW),
            )
            for far in _SIDES
        ),
        _cell("target-100ms", _TARGET_100, contenders=("mm2-default", "understudy-alo")),
        *_latency_cells(),
    ]


def _latency_cells() -> list[Scenario]:
    """Live traffic as the defaults are, and with overlapping fetches within a budget of bytes."""
    usual = _cell(
        "latency-source-100ms",
        NetworkProfile(far="source", rtt_ms=100),
        backlog_mb=100,
        latency_s=30.0,
        contenders=(OPPONENT, "understudy-alo"),
    )
    return [
        usual,
        dataclasses.replace(
            usual,
            name=f"{usual.name}-overlap",
            properties={"fetch.overlap.bytes": "8000000"},
            contenders=("understudy-alo",),
        ),
    ]


def _cell(name: str, line: NetworkProfile, **changes: object) -> Scenario:
    return dataclasses.replace(_CENTRE, name=name, line=line, **changes)  # type: ignore[arg-type]
