"""A preview of rules: records before and after, totals, and the paths that no record has."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from mirrors.domain.formatting import bytes_as_json
from mirrors.domain.transforms.evaluation import (
    EvaluatedRecord,
    PathLookup,
    RecordParts,
    SampledRecord,
)
from mirrors.domain.transforms.functions import field_names, reader_of

Outcome = Literal["kept", "changed", "dropped", "failed"]
OUTCOMES: tuple[Outcome, ...] = ("kept", "changed", "dropped", "failed")
# Bytes of a key, a value or a header that a preview shows.
SHOWN_BYTES: Final = 4000


class RecordComparison(NamedTuple):
    """One record before and after.

    - kept: copied unchanged. changed: `changed` names the parts. failed: `failed` is the field
      whose expression failed, and `message` Spark's reason.
    - `after`: None if it is dropped or failed.
    - `route`: the target topic, if the rule names it; empty for the one that the policy names.
    """

    before: SampledRecord
    outcome: Outcome
    after: RecordParts | None
    changed: tuple[str, ...] = ()
    failed: str = ""
    message: str = ""
    route: str = ""

    def to_dict(self, remote_topic: str) -> dict[str, Any]:
        """For JSON; `remote_topic` is the one that the policy names.

        Long parts are cut; bytes that are not UTF-8 become `…_base64`.
        """
        record = self.before
        return {
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "outcome": self.outcome,
            "changed": list(self.changed),
            "failed": self.failed,
            "message": self.message,
            "before": _shown(record.parts),
            "after": None if self.after is None else _shown(self.after),
            "target": None if self.after is None else self.route or remote_topic,
        }


def compare_record(
    record: SampledRecord, evaluated: EvaluatedRecord | None = None
) -> RecordComparison:
    """Compare a record with what its rule makes of it; without a rule it is kept."""
    if evaluated is None:
        return RecordComparison(record, "kept", record.parts)
    if evaluated.failed:
        failed, message = evaluated.failed, evaluated.message
        return RecordComparison(record, "failed", None, failed=failed, message=message)
    after = evaluated.after
    if after is None:
        return RecordComparison(record, "dropped", None)
    pairs = zip(RecordParts._fields, record.parts, after, strict=True)
    changed = tuple(name for name, old, new in pairs if old != new)
    outcome: Outcome = "changed" if changed else "kept"
    return RecordComparison(record, outcome, after, changed, route=evaluated.route)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreviewTotals:
    """Counts by outcome, and bytes of keys, values and headers before compression.

    Both sums of bytes leave out records that failed: what they become is unknown.
    """

    records: int
    kept: int
    changed: int
    dropped: int
    failed: int
    bytes_before: int
    bytes_after: int


def totals_of(rows: Sequence[RecordComparison]) -> PreviewTotals:
    counts = {name: sum(row.outcome == name for row in rows) for name in OUTCOMES}
    return PreviewTotals(
        records=len(rows),
        **counts,
        bytes_before=sum(row.before.parts.bytes for row in rows if row.outcome != "failed"),
        bytes_after=sum(row.after.bytes for row in rows if row.after is not None),
    )


def targets_of(rows: Sequence[RecordComparison], remote_topic: str) -> dict[str, int]:
    """How many of the records go to each topic on the target, by name."""
    written = [row.route or remote_topic for row in rows if row.after is not None]
    return {name: written.count(name) for name in sorted(set(written))}


class PathUse(NamedTuple):
    """A path that a rule gives to a function, such as json_mask.

    `column`: the key or value that it is looked up in; empty if the function gets something else.
    """

    field: str
    function: str
    path: str
    column: str


def lookup_of(use: PathUse) -> PathLookup | None:
    """What the runner looks for, where only its functions can read the records; None for JSON."""
    reader = reader_of(use.function) if use.column else ""
    return PathLookup(reader, use.column, use.path) if reader else None


class PathMatch(NamedTuple):
    """How many of the records have the field; None if the function gets no key or value, or if a
    record that could not be read may have it."""

    use: PathUse
    records: int | None

    def to_dict(self) -> dict[str, Any]:
        return {**self.use._asdict(), "records": self.records}


def match_paths(
    uses: Iterable[PathUse],
    records: Sequence[SampledRecord],
    counts: Mapping[PathLookup, int | None],
) -> list[PathMatch]:
    """Look for each path in the records as they are on the source, dropped ones too.

    `counts`: what the runner found.
    """
    documents: dict[str, list[Any]] = {}
    found = []
    for use in uses:
        lookup = lookup_of(use)
        if lookup is not None or not use.column:
            found.append(PathMatch(use, None if lookup is None else counts.get(lookup)))
            continue
        if use.column not in documents:
            parts = (getattr(record.parts, use.column) for record in records)
            documents[use.column] = [_document(data) for data in parts]
        names = field_names(use.path)
        count = sum(_has(document, names) for document in documents[use.column])
        found.append(PathMatch(use, count))
    return found


def count_path(path: str, documents: Sequence[bytes | None], unread: int) -> int | None:
    """Return how many JSON documents have the path; None if an unread one may have it instead."""
    names = field_names(path)
    count = sum(_has(_document(data), names) for data in documents)
    return None if unread and not count else count


def sample_offsets(ranges: Mapping[int, tuple[int, int]], count: int) -> dict[int, tuple[int, int]]:
    """Share `count` among partitions: the offsets to read of each, the newest ones.

    `ranges` has log start and end. Partitions that have fewer leave their share to others.
    """
    left = {number: end - first for number, (first, end) in ranges.items() if end > first}
    shares = dict.fromkeys(left, 0)
    while count > 0 and left:
        part = max(count // len(left), 1)
        for number in sorted(left):
            taken = min(part, left[number], count)
            shares[number] += taken
            left[number] -= taken
            count -= taken
        left = {number: rest for number, rest in left.items() if rest}
    return {
        number: (ranges[number][1] - share, ranges[number][1])
        for number, share in shares.items()
        if share
    }


def _document(data: bytes | None) -> Any:
    """None for what is not JSON: it has no field. An id of a schema may be before it."""
    if data is not None and data[:1] == b"\0":
        data = data[5:]
    try:
        return None if data is None else json.loads(data)
    except (ValueError, RecursionError):
        return None


def _has(document: Any, names: tuple[str, ...]) -> bool:
    if isinstance(document, list):
        return any(_has(element, names) for element in document)
    return (
        isinstance(document, dict)
        and names[0] in document
        and (len(names) == 1 or _has(document[names[0]], names[1:]))
    )


def _shown(parts: RecordParts) -> dict[str, Any]:
    key, value = _cut(parts.key), _cut(parts.value)
    headers = tuple((name[:SHOWN_BYTES], _cut(data)) for name, data in parts.headers)
    return {
        **bytes_as_json("key", key),
        **bytes_as_json("value", value),
        "headers": [{"name": name, **bytes_as_json("value", data)} for name, data in headers],
        "bytes": parts.bytes,
        "is_cut": RecordParts(key, value, headers) != parts,
    }


def _cut(data: bytes | None) -> bytes | None:
    """The first bytes, without a part of a character at their end."""
    if data is None or len(data) <= SHOWN_BYTES:
        return data
    cut = data[:SHOWN_BYTES]
    for end in range(SHOWN_BYTES - 1, SHOWN_BYTES - 5, -1):
        if cut[end] & 0xC0 != 0x80:
            return cut[:end] if cut[end] >= 0xC0 else cut
    return cut
