"""Records that producers wrote on the source after the fence: they are not on the target."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from mirrors.domain.formatting import plural


class LateRecords(NamedTuple):
    """`known`: offsets written in the partitions that were read. `unread`: number of the others."""

    known: int
    unread: int

    @property
    def exact(self) -> int | None:
        """The number for a reader that cannot show a bound: None unless all were read."""
        return None if self.unread else self.known

    def to_dict(self) -> dict[str, Any]:
        return {
            "written_on_source": self.exact,
            "written_on_source_known": self.known,
            "written_on_source_unread": self.unread,
        }


# Of a source that did not respond.
NOT_READ: Final[Mapping[str, None]] = {
    "written_on_source": None,
    "written_on_source_known": None,
    "written_on_source_unread": None,
}


def late_records(
    fenced: Mapping[str, int], now: Mapping[str, int], unread: Collection[str] = ()
) -> LateRecords:
    """Compare log ends by `topic-partition`: at the fence, and now where it can be read.

    `unread`: partitions whose end could not be read at the fence.
    """
    known = sum(max(0, now[name] - end) for name, end in fenced.items() if name in now)
    return LateRecords(known, len({*fenced, *unread} - (fenced.keys() & now.keys())))


def late_sentence(late: LateRecords | None, source: str) -> str:
    """`late` is None if the source did not respond at all."""
    if late is None:
        return f"Whether anything is still written on {source} is unknown."
    written = f"{plural(late.known, 'record')} written on {source} since the fence"
    if not late.unread:
        return f"{written}."
    if not late.known:
        return (
            f"Whether anything is still written on {source} is unknown: "
            f"{plural(late.unread, 'partition')} could not be read."
        )
    return f"At least {written}: {plural(late.unread, 'partition')} could not be read."
