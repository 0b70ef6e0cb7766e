"""The divergence point of a partition: up to where both sides hold the same, when one took over.

It is kept on the standby cluster, in a compacted topic beside the flow's positions, so that the way
back is known when all else is lost. The first one of a promotion counts: asked again later, the
target's end has moved on, but what the flow wrote last has not.
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
    """Literal dots, whatever the separator is: MM2's rule must count it internal."""
    return f"mm2-divergence.{source_alias}.internal"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Divergence:
    """One partition of a flow as it was when its target was promoted.

    `position`: the first upstream offset that did not cross. `downstream`: the first offset on the
    target that the flow did not write, `how` it is known: by its offset runs, or only by the end of
    the target at that moment. `end`: that end. `mark` names the promotion, `at` when it was (ms).
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
        """Which topics on both sides it speaks of."""
        ids = self.source_cluster, self.source_topic_id
        return *ids, self.target_cluster, self.target_topic_id


def diverge(
    row: Position, *, remote_topic: str, last: Run | None, end: int, mark: str, at: int
) -> Divergence:
    """From the flow's position and the last of its runs, at or below that position."""
    downstream, how = end, "end"
    if last is not None:
        written = last.downstream + min(last.length, row.position - last.upstream)
        # Of runs that the target lost the position still tells where they ended.
        written = max(written, row.map_end or 0)
        # A target that lost its tail holds less than the flow wrote.
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


def keep_first(known: Divergence | None, fresh: Divergence) -> Divergence:
    """The point to be kept beside what is known of the partition already.

    The first of a promotion counts. A later promotion moves on where the flow stood; but where the
    target began to have records of its own stays as far back as it was, for the same two topics:
    the flow may have written behind them since, and nobody has brought them back yet.
    """
    if known is None or known.generation != fresh.generation:
        return fresh
    if known.mark == fresh.mark:
        return known
    return dataclasses.replace(fresh, downstream=min(known.downstream, fresh.downstream))


def _compact(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
