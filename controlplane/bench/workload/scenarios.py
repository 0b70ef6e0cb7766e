"""What is measured: each cell is one shape of data and load, and who is measured on it."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterable, Mapping, Sequence

from controlplane.bench.distance.relay import NetworkProfile
from controlplane.bench.workload.record_shapes import Shape
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules

_PREDICATES = "org.apache.kafka.connect.transforms.predicates"
OPPONENT = "mm2-tuned"
OURS = "understudy"
CENTRE = Shape()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """One row of the plan. Times in seconds, sizes in megabytes of uncompressed records.

    A run copies `backlog_mb` and is stopped `window_s` after `warm_s`. It is measured after
    `warm_s`, or over its last `window_s` where it is shorter (window.py). If everything was copied,
    `latency_s` and `idle_s` follow in the same processes.
    """

    name: str
    shape: Shape = CENTRE
    partitions: int = 16
    flows: int = 1
    tls: bool = False
    line: NetworkProfile | None = None
    backlog_mb: int = 4_000
    # The opponent's JVM compiles for so long: before that a window is not steady.
    warm_s: float = 40.0
    window_s: float = 30.0
    latency_s: float = 0.0
    rate: float = 2_000.0
    idle_s: float = 0.0
    contenders: tuple[str, ...] = (OPPONENT, OURS)
    # Settings of Understudy's flows in this cell alone, and of MirrorMaker 2's.
    properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    mm2_properties: Mapping[str, str] = dataclasses.field(default_factory=dict)
    passes: int = 1

    @property
    def sequence(self) -> list[str]:
        """Who runs when: forwards, backwards, forwards, so that drift hits all alike."""
        order: list[str] = []
        for number in range(self.passes):
            order += self.contenders if number % 2 == 0 else self.contenders[::-1]
        return order

    @property
    def data(self) -> tuple[object, ...]:
        """Cells that agree in this are measured on the same source topics."""
        return self.shape, self.partitions, self.flows, self.backlog_mb


def quick_scenarios() -> list[Scenario]:
    """Five minutes: the centre point, with everybody on it."""
    cell = Scenario(name="1k-lz4-16", backlog_mb=2_000, warm_s=4.0, window_s=18.0)
    everybody = (OPPONENT, OURS, "loop", "mm2-default")
    return [
        dataclasses.replace(cell, contenders=everybody),
        dataclasses.replace(cell, name="latency", backlog_mb=100, latency_s=10.0, warm_s=3.0),
    ]


def full_scenarios() -> list[Scenario]:
    """About an hour: the centre point in full, then one factor at a time.

    A backlog keeps the tuned opponent busy for longer than its window of 30 s, so that the window
    begins as late as may be; it is no more than lies in memory twice on a machine of 24 GB, for a
    disk is not what is compared. Who is first changes from cell to cell. What stands close to its
    mark (docs/performance.md) runs twice.
    """
    return alternating(_full_cells())


def alternating(cells: Iterable[Scenario]) -> list[Scenario]:
    """The same cells; in every second one the last contender runs first."""
    return [
        dataclasses.replace(cell, contenders=cell.contenders[::-1]) if number % 2 else cell
        for number, cell in enumerate(cells)
    ]


def _full_cells() -> list[Scenario]:
    centre = Scenario(name="1k-lz4-16", backlog_mb=13_000)
    live = Scenario(
        name="latency",
        backlog_mb=100,
        # Fresh brokers compile the way of small requests for half a minute, on processors that
        # they share with all others: that would be measured, whichever system copies.
        warm_s=30.0,
        latency_s=45.0,
    )
    idle = Scenario(name="idle-1000", partitions=1_000, backlog_mb=70)
    everybody = ("mm2-default", OPPONENT, "mm2-tuned-1", "loop", "understudy-alo", OURS)
    return [
        dataclasses.replace(centre, contenders=everybody),
        dataclasses.replace(centre, contenders=(OPPONENT, OURS)),
        Scenario(name="1k-none-16", shape=Shape(codec="none"), backlog_mb=10_000),
        Scenario(name="1k-zstd-16", shape=Shape(codec="zstd"), backlog_mb=12_000),
        Scenario(name="100b-lz4-16", shape=Shape(record_bytes=100), backlog_mb=2_000),
        Scenario(name="10k-lz4-16", shape=Shape(record_bytes=10_240), backlog_mb=16_000, passes=2),
        Scenario(name="1k-lz4-16-tls", tls=True, backlog_mb=9_000, passes=2),
        Scenario(name="1k-lz4-1", partitions=1, backlog_mb=6_000),
        Scenario(name="1k-lz4-200", partitions=200, backlog_mb=10_000),
        Scenario(name="1k-lz4-1000", partitions=1_000, backlog_mb=9_000),
        Scenario(name="1k-lz4-16-starved", shape=Shape(batch_bytes=7_200), backlog_mb=11_000),
        dataclasses.replace(live, contenders=("mm2-default", OPPONENT)),
        # So long that one task hands over to the next while it is measured.
        dataclasses.replace(live, latency_s=120.0, contenders=("understudy-alo", OURS)),
        # What an idle opponent takes is as steady after one minute as after two.
        dataclasses.replace(idle, idle_s=60.0, contenders=(OPPONENT,)),
        dataclasses.replace(idle, idle_s=120.0, contenders=(OURS,)),
        *_rules(live),
        Scenario(name="flows-5", flows=5, backlog_mb=2_000, contenders=(OURS,)),
        Scenario(name="flows-20", flows=20, backlog_mb=2_000, contenders=(OURS,)),
    ]


def _rules(live: Scenario) -> list[Scenario]:
    """Rules that keep every record, so that the copies are verified as in all other cells.

    `live`: the cell that measures latency.

    The filter looks at a header. The change sends every value through Spark and back; MirrorMaker 2
    has no transform for values without a converter, so it copies them unchanged.
    """
    cell = Scenario(name="1k-lz4-16-filter", backlog_mb=4_000, passes=2)
    keeps = TransformRule(topics=".*", where="header(headers, 'absent') is null")
    changes = TransformRule(topics=".*", value="if(length(value) < 0, null, value)")
    properties = {TRANSFORMS: format_rules((keeps,))}
    mm2_properties = {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "absent",
        "predicates": "absent",
        "predicates.absent.type": f"{_PREDICATES}.HasHeaderKey",
        "predicates.absent.name": "absent",
    }
    return [
        dataclasses.replace(
            live, name="latency-filter", properties=properties, mm2_properties=mm2_properties
        ),
        dataclasses.replace(cell, properties=properties, mm2_properties=mm2_properties),
        dataclasses.replace(
            cell, name="1k-lz4-16-change", properties={TRANSFORMS: format_rules((changes,))}
        ),
    ]


def chosen(cells: Iterable[Scenario], patterns: Sequence[str]) -> list[Scenario]:
    """Cells and contenders that match one of the patterns (`cell` or `cell/contender`, * and ?)."""
    if not patterns:
        return list(cells)
    found = []
    for cell in cells:
        kept = tuple(name for name in cell.contenders if _matches(cell.name, name, patterns))
        if kept:
            found.append(dataclasses.replace(cell, contenders=kept))
    return found


def _matches(cell: str, contender: str, patterns: Sequence[str]) -> bool:
    return any(
        fnmatch.fnmatchcase(f"{cell}/{contender}", text if "/" in text else f"{text}/*")
        for text in patterns
    )
