"""Two clusters with a history on both sides: the cases over which failback keeps its properties."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from hypothesis import strategies as st

from mirrors.domain.failback.divergence import (
    divergence_point,
)
from mirrors.domain.failback.orphans import find_orphan_range, is_own
from mirrors.domain.failback.reverse_flow import Side, plan_starts
from mirrors.domain.failback.reverse_translation import (
    downstream_between,
    translate_back,
    upstream_between,
)
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.runs import Run
from mirrors.domain.replication_policy import ReplicationPolicy

TOPIC = "orders"
BACK = ReplicationPolicy(kind="identity", source_alias="b", target_alias="a")


@dataclasses.dataclass
class Log:
    """One partition: names of records by offset, None for a marker of a transaction."""

    rows: list[str | None] = dataclasses.field(default_factory=list)

    def write(self, name: str | None) -> int:
        self.rows.append(name)
        return len(self.rows) - 1

    def names(self, start: int = 0) -> list[str]:
        return [name for name in self.rows[start:] if name is not None]


@dataclasses.dataclass
class Copy:
    """A flow: its position, its runs, and what it leaves out because the other one wrote it."""

    source: Log
    target: Log
    position: int = 0
    runs: list[Run] = dataclasses.field(default_factory=list)
    other: Copy | None = None

    def go(self, to: int, *, commit: bool = True) -> None:
        moved = False
        for at in range(self.position, min(to, len(self.source.rows))):
            name = self.source.rows[at]
            if name is not None and (self.other is None or is_own(at, self.other.runs)):
                self.runs.append(Run(at, self.target.write(name), 1))
                moved = True
            self.position = at + 1
        if moved and commit:
            self.target.write(None)


def beside(runs: Iterable[Run], member: str, offset: int) -> dict[str, Run | None]:
    rows = list(runs)
    below = [run for run in rows if getattr(run, member) <= offset]
    above = [run for run in rows if getattr(run, member) > offset]
    return {"below": below[-1] if below else None, "above": above[0] if above else None}


def position(at: int) -> Position:
    return Position(
        topic=TOPIC, partition=0, position=at, source_cluster="A", source_topic_id="ta",
        target_cluster="B", target_topic_id="tb",
    )  # fmt: skip


def side(cluster: str, topic_id: str, log: Log) -> Side:
    ends = {(TOPIC, 0): len(log.rows)}
    return Side(cluster=cluster, topic_ids={TOPIC: topic_id}, first={(TOPIC, 0): 0}, end=ends)


class World:
    def __init__(self, chunks: list[int], orphans: int, own: list[bool]) -> None:
        self.a, self.b = Log(), Log()
        self.there = Copy(self.a, self.b)
        number = 0
        for chunk in chunks:
            for _ in range(chunk):
                self.a.write(f"a{number}")
                number += 1
            self.there.go(len(self.a.rows))
        for number in range(orphans):
            self.a.write(f"o{number}")
        last = self.there.runs[-1] if self.there.runs else None
        self.point = divergence_point(
            position(self.there.position), remote_topic=TOPIC, last=last, end=len(self.b.rows),
            mark="failover-1", at=0,
        )  # fmt: skip
        self.stretch = find_orphan_range(self.point, first=0, end=len(self.a.rows))
        for at, is_record in enumerate(own):
            self.b.write(f"b{at}" if is_record else None)
        (start,) = plan_starts(
            [self.point], BACK, {}, old=side("A", "ta", self.a), new=side("B", "tb", self.b)
        )
        assert start.kind == "divergence"
        self.back = Copy(self.b, self.a, position=start.offset or 0, other=self.there)

    def settle(self, *, replay: bool) -> None:
        """A person decided: the flow there brings them over, or passes them."""
        if replay:
            self.there.go(self.stretch.end)
        self.there.position = max(self.there.position, self.stretch.end)

    def place(self, asked: int, *, undecided: bool) -> int:
        tail = self.back.runs[-1].downstream + 1 if self.back.runs else 0
        found = translate_back(
            asked,
            forth=upstream_between(asked, **beside(self.there.runs, "downstream", asked)),
            back=downstream_between(asked, **beside(self.back.runs, "upstream", asked)),
            rest=self.there.position,
            tail=tail,
            undecided=undecided and self.stretch.offsets > 0,
        )
        assert found.downstream is not None
        return found.downstream


worlds = st.builds(
    World,
    st.lists(st.integers(0, 4), max_size=4),
    st.integers(0, 4),
    st.lists(st.booleans(), max_size=6),
)
