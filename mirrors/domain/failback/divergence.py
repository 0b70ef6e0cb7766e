"""The divergence point of a partition: up to where both sides are equal when one takes over.

It is stored on the standby cluster, in a compacted topic with the flow's positions, so that a
failback does not depend on the database. The first point of a promotion counts: later the target's
end has moved, but the flow's last write has not.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Literal, Self

from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Position
from mirrors.domain.offsets.runs import Run

How = Literal["runs", "end"]


def divergence_topic(source_alias: str) -> str:
    """Return the topic's name. Its dots are literal, because MM2 must count it as internal."""
    return f"mm2-divergence.{source_alias}.internal"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Divergence:
    """One partition of a flow as it was when its target was promoted.

    - `position`: the first source offset that was not replicated.
    - `downstream`: the first offset on the target that the flow did not write.
    - `how`: how `downstream` is known: by the offset runs, or only by the target's end at that
      time.
    - `end`: that end.
    - `mark`: the name of the promotion. `at`: its time (epoch ms).
    """

    topic: str
    partition: int
    remote_topic: str
    position: int
    downstream: int
    end: int
    how: How
    source_cluster: str
    source_topic_id: str
    target_cluster: str
    target_topic_id: str
    mark: str
    at: int
    resets: int = 0

    @property
    def key(self) -> bytes:
        return _compact({"topic": self.topic, "partition": self.partition})

    @property
    def value(self) -> bytes:
        body = dataclasses.asdict(self)
        del body["topic"], body["partition"]
        return _compact({"v": 1, **body})

    @classmethod
    def read(cls, key: bytes | None, value: bytes | None) -> Self:
        try:
            place, body = json.loads(key or b""), json.loads(value or b"")
            version = body.pop("v")
            if version != 1:
                raise MalformedRecord(f"it has version {version}; only version 1 is known")
            return cls(**place, **body)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise MalformedRecord("the record is not a divergence point") from None

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def generation(self) -> tuple[str, str, str, str]:
        """The ids of the topics on both sides."""
        ids = self.source_cluster, self.source_topic_id
        return *ids, self.target_cluster, self.target_topic_id


def divergence_point(
    row: Position, *, remote_topic: str, last: Run | None, end: int, mark: str, at: int
) -> Divergence:
    """Return the point from the flow's position and its last run, at or below that position."""
    downstream, how = end, "end"
    if last is not None:
        written = last.downstream + min(last.length, row.position - last.upstream)
        # The position still holds the end of runs that the target lost.
        written = max(written, row.map_end or 0)
        # A target that lost its last records holds less than the flow wrote.
        downstream, how = min(written, end), "runs"
    return Divergence(
        topic=row.topic,
        partition=row.partition,
        remote_topic=remote_topic,
        position=row.position,
        downstream=downstream,
        end=end,
        how=how,  # type: ignore[arg-type]
        source_cluster=row.source_cluster,
        source_topic_id=row.source_topic_id,
        target_cluster=row.target_cluster,
        target_topic_id=row.target_topic_id,
        mark=mark,
        at=at,
        resets=row.resets,
    )


def merge_points(known: Divergence | None, fresh: Divergence) -> Divergence:
    """Return the point to store, given the known one.

    - The first point of a promotion counts.
    - A later promotion advances the flow's position. For the same two topics it keeps the earlier
      start of the target's own records. The flow may have written after them, and nobody has
      replayed them yet.
    """
    if known is None or known.generation != fresh.generation:
        return fresh
    if known.mark == fresh.mark:
        return known
    return dataclasses.replace(fresh, downstream=min(known.downstream, fresh.downstream))


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
