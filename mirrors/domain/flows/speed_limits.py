"""What limits the speed of a slice, with the figures that show it.

An engine measures the share of time for which each limit made it wait (`spark_runner`). Times are
milliseconds, sizes are bytes as they cross the network, shares are between 0 and 1.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final, Literal, Self, get_args

from mirrors.domain.formatting import size

# - source_window: one fetch per connection is in flight, and its reply is awaited.
# - target_window: no more bytes, requests or batches may be in flight to the target.
# - commit: nothing is sent while a transaction ends, and until the next one has begun.
# - link: bytes arrive, or leave the socket's buffer, more slowly than the engine handles them.
# - processor: the engine's thread computes, or waits for a processor.
# - quota: a broker's quota, or the bandwidth limit of the flow.
# - nothing: the slice has caught up.
Name = Literal["source_window", "target_window", "commit", "link", "processor", "quota", "nothing"]
NAMES: tuple[Name, ...] = get_args(Name)
# From this round trip on, the engine keeps more in flight.
FAR_MS: Final = 20.0
Side = Literal["source", "target", ""]
# What of a window is used up: bytes or requests of a connection, batches of a partition, or memory.
Part = Literal["bytes", "requests", "batches", "memory", ""]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpeedLimit:
    """The limit that took the largest share of the last `seconds`."""

    name: Name
    share: float
    seconds: float
    side: Side = ""
    part: Part = ""
    # The most bytes in flight lately, and the most that were allowed.
    in_flight_bytes: int | None = None
    window_bytes: int | None = None
    # Duration of the last request on that side.
    response_ms: float | None = None
    # The share of each limit.
    shares: dict[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Fields of a later version are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in raw.items() if name in known})


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceSpeed:
    """What limits a slice, and the quickest round trip to each cluster; None where unknown."""

    limit: SpeedLimit | None = None
    source_rtt_ms: float | None = None
    target_rtt_ms: float | None = None

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        limit = raw.get("limit")
        return cls(
            limit=SpeedLimit.from_dict(limit) if limit else None,
            source_rtt_ms=raw.get("source_rtt_ms"),
            target_rtt_ms=raw.get("target_rtt_ms"),
        )


UNMEASURED: Final = SliceSpeed()


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowSpeed(SliceSpeed):
    """The limit of most slices of a flow, and the longest round trips.

    `limit` is that of the slice with the largest share. It is `nothing` only if every slice was
    measured and has caught up, and None while an unmeasured slice may still be behind.
    """

    # Slices that were measured, and how many of them have this limit.
    slices: int = 0
    limited_slices: int = 0

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        found = SliceSpeed.from_dict(raw)
        counts = {name: raw.get(name, 0) for name in ("slices", "limited_slices")}
        return cls(**vars(found), **counts)


def summarize(slices: Iterable[SliceSpeed]) -> FlowSpeed:
    speeds = list(slices)
    limits = [speed.limit for speed in speeds if speed.limit is not None]
    counts: Counter[str] = Counter(limit.name for limit in limits if limit.name != "nothing")
    if not counts and len(limits) < len(speeds):
        limits = []
    name = max(counts, key=lambda one: counts[one]) if counts else "nothing"
    same = [limit for limit in limits if limit.name == name]
    return FlowSpeed(
        limit=max(same, key=lambda limit: limit.share, default=None),
        source_rtt_ms=_longest(speed.source_rtt_ms for speed in speeds),
        target_rtt_ms=_longest(speed.target_rtt_ms for speed in speeds),
        slices=len(limits),
        limited_slices=len(same),
    )


def _longest(round_trips: Iterable[float | None]) -> float | None:
    return max((one for one in round_trips if one is not None), default=None)


def milliseconds(seconds: float) -> float | None:
    """None for what was not measured."""
    return round(seconds * 1000, 2) if 0 < seconds < float("inf") else None


def state(speed: SliceSpeed, *, source: str, target: str) -> str:
    """What binds, with its figure; empty while unknown. `source` and `target` are aliases."""
    limit = speed.limit
    if limit is None:
        return ""
    if limit.name == "nothing":
        return "Speed: nothing limits it, each slice has caught up in what it copies."
    alias = target if limit.side == "target" else source
    what = {
        "source_window": f"source window: fetches from {alias} waited for their replies for",
        "target_window": f"target window: {_used_up(limit, alias)} for",
        "commit": f"commit: ending transactions on {target} took",
        "link": f"link: {_moving(limit, alias)} for",
        "processor": "processor: the engine computed, or waited for a processor, for",
        "quota": "quota: a quota, or the flow's bandwidth limit, held reads or writes back for",
    }[limit.name]
    figures = [f"RTT {_ms(rtt)}"] if (rtt := _rtt(speed, limit)) is not None else []
    if limit.response_ms is not None:
        figures.append(f"a request takes {_ms(limit.response_ms)}")
    if limit.name == "source_window" and limit.in_flight_bytes:
        figures.append(f"replies of up to {size(limit.in_flight_bytes)} in flight")
    behind = f" ({', '.join(figures)})" if figures else ""
    return f"Speed limit: {what} {limit.share:.0%} of the last {limit.seconds:.0f} s{behind}."


def advice(speed: SliceSpeed, *, source: str, target: str) -> str:
    """What to change; empty where nothing has to be."""
    limit = speed.limit
    if limit is None or limit.name == "nothing":
        return ""
    alias = target if limit.side == "target" else source
    is_far = (_rtt(speed, limit) or 0.0) >= FAR_MS
    if limit.name == "source_window":
        return _source_advice(limit, alias, is_far=is_far)
    if limit.name == "target_window":
        return _target_advice(limit, alias, is_far=is_far)
    return {
        "commit": f"Raise commit.interval.ms{f', or move the runner closer to {target}' * is_far}.",
        "link": (
            f"The connection test of {alias} says what one stream carries, and which limit of the "
            "kernel to raise. If the line itself is full, copy fewer bytes: compression.type."
        ),
        "processor": "Raise tasks.max, and give Spark a slot for each slice.",
        "quota": (
            "Raise bandwidth.limit.bytes of the flow, or the quota of its user on the brokers; "
            "the reason of the lagging partitions says which."
        ),
    }[limit.name]


def _source_advice(limit: SpeedLimit, alias: str, *, is_far: bool) -> str:
    if not is_far:
        return f"The brokers of {alias} respond slowly: check their disks and request handlers."
    if limit.in_flight_bytes and limit.in_flight_bytes == limit.window_bytes:
        return (
            "Raise consumer.fetch.max.bytes or tasks.max, or move the runner closer to the source."
        )
    return "Raise tasks.max, or move the runner closer to the source."


def _target_advice(limit: SpeedLimit, alias: str, *, is_far: bool) -> str:
    if limit.part == "memory":
        return "Raise producer.buffer.memory: it bounds the received batches of each slice."
    if not is_far:
        return (
            f"The brokers of {alias} acknowledge late: look at their disks, replicas and request "
            "handlers."
        )
    if limit.part == "batches":
        return (
            "A partition has five batches in flight: use delivery=exactly_once, which has no such "
            "limit, or raise producer.batch.size."
        )
    if limit.part == "requests":
        return "Raise or remove producer.max.in.flight.requests.per.connection."
    return (
        "Raise tasks.max: each slice has its own window. Or move the runner closer to the target."
    )


def _used_up(limit: SpeedLimit, alias: str) -> str:
    if limit.part == "memory":
        return f"all memory for batches in flight to {alias} was in use"
    if limit.part == "batches":
        return f"as many batches of a partition as allowed were in flight to {alias}"
    amount = size(limit.in_flight_bytes) if limit.in_flight_bytes else "what is allowed"
    if limit.part == "requests":
        return f"as many requests as allowed ({amount}) were in flight to {alias}"
    return f"{amount} in flight to {alias}, full"


def _moving(limit: SpeedLimit, alias: str) -> str:
    if limit.side == "source":
        return f"bytes from {alias} arrived more slowly than they were copied"
    return f"bytes to {alias} waited longer than they traveled"


def _rtt(speed: SliceSpeed, limit: SpeedLimit) -> float | None:
    return {"source": speed.source_rtt_ms, "target": speed.target_rtt_ms}.get(limit.side)


def _ms(value: float) -> str:
    return f"{value:.0f} ms" if value >= 9.95 else f"{value:.1f} ms"
