"""Ranges that a runner compares in its Spark: what the request and the response hold.

Both are JSON files in the runner's directory (`mirrors.launcher`). They hold digests, offsets and
references to secrets, and no content of records.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Final, Self, cast

from mirrors.domain.comparison.alignment import Difference, Kind, Row
from mirrors.domain.comparison.digests import ReadChunks
from mirrors.domain.specs import ClusterSpec, FlowSpec

_NOTHING: Final = ReadChunks((), ())


@dataclasses.dataclass(frozen=True, kw_only=True)
class RangePair:
    """Consecutive chunks of one partition: where they begin on both sides, and the last end.

    - `part`: the id of the ComparisonPart.
    - `keeps_time`: timestamps belong to the content.
    - `by_key`: only the last record of each key counts, as in compacted topics.
    """

    part: int
    topic: str
    partition: int
    remote_topic: str
    keeps_time: bool
    source: tuple[int, ...]
    target: tuple[int, ...]
    by_key: bool = False

    @property
    def chunks(self) -> int:
        return len(self.source) - 1

    @property
    def offsets(self) -> int:
        return self.source[-1] - self.source[0]

    def between(self, first: int, last: int) -> RangePair:
        """The chunks from `first` up to but without `last`."""
        source, target = self.source[first : last + 1], self.target[first : last + 1]
        return dataclasses.replace(self, source=source, target=target)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        return cls(**{**raw, "source": tuple(raw["source"]), "target": tuple(raw["target"])})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonRequest:
    """Compare these ranges.

    - `number` counts the requests of one comparison.
    - `bytes_per_second`: the budget, of both sides together; None: no limit.
    - `most_bytes`: begin no further range after this many bytes.
    """

    comparison: int
    number: int
    flow: int
    name: str
    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str]
    pairs: tuple[RangePair, ...]
    most_bytes: int
    bytes_per_second: int | None = None

    @property
    def spec(self) -> FlowSpec:
        return FlowSpec(source=self.source, target=self.target, properties=self.properties)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw: dict[str, Any] = json.loads(text)
        source, target = ClusterSpec(**raw.pop("source")), ClusterSpec(**raw.pop("target"))
        pairs = tuple(RangePair.from_dict(row) for row in raw.pop("pairs"))
        return cls(source=source, target=target, pairs=pairs, **raw)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparedRange:
    """What a task found in its range.

    - `first`: the source offset at which it begins.
    - `source`, `target`: the chunks that were read completely on both sides.
    - `differences`: by the first and last chunk that differ, counted in this range.
    - `bytes`: records of both sides, before compression.
    - `refusal`: why nothing more can be read of this partition; empty if the range is read.
    """

    part: int
    first: int
    source: ReadChunks = _NOTHING
    target: ReadChunks = _NOTHING
    differences: tuple[tuple[int, int, tuple[Difference, ...]], ...] = ()
    bytes: int = 0
    refusal: str = ""

    def to_dict(self) -> dict[str, Any]:
        found = [
            [first, last, [_difference_to_list(row) for row in rows]]
            for first, last, rows in self.differences
        ]
        return {
            **{name: getattr(self, name) for name in ("part", "first", "bytes", "refusal")},
            "source": self.source.to_dict(),
            "target": self.target.to_dict(),
            "differences": found,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        differences = tuple(
            (first, last, tuple(_difference_from_list(row) for row in rows))
            for first, last, rows in raw["differences"]
        )
        sides = {name: ReadChunks.from_dict(raw[name]) for name in ("source", "target")}
        return cls(**{**raw, **sides, "differences": differences})


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonResponse:
    """What was compared so far. `ended`: no more follows. `error`: why there is less than asked."""

    number: int
    ranges: tuple[ComparedRange, ...] = ()
    ended: bool = False
    error: str = ""

    def to_json(self) -> str:
        return json.dumps(
            {
                "number": self.number,
                "ranges": [row.to_dict() for row in self.ranges],
                "ended": self.ended,
                "error": self.error,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        raw = json.loads(text)
        ranges = tuple(ComparedRange.from_dict(row) for row in raw.pop("ranges"))
        return cls(ranges=ranges, **raw)


def _difference_to_list(row: Difference) -> list[Any]:
    return [row.kind, _row_to_list(row.source), _row_to_list(row.target), row.twin, row.behind]


def _difference_from_list(raw: list[Any]) -> Difference:
    kind, source, target, twin, behind = raw
    rows = _row_from_list(source), _row_from_list(target)
    return Difference(cast(Kind, kind), *rows, twin, cast(tuple[int, int], tuple(behind)))


def _row_to_list(row: Row | None) -> list[Any] | None:
    if row is None:
        return None
    parts = [part.hex() if isinstance(part, bytes) else part for part in row.parts]
    return [row.offset, row.digest.hex(), parts]


def _row_from_list(raw: list[Any] | None) -> Row | None:
    if raw is None:
        return None
    offset, digest, parts = raw
    known = tuple(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)
    return Row(offset, bytes.fromhex(digest), known)
