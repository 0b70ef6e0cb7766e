"""End offsets of a bounded run: found once for each partition and kept for the job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.settings.flow_control import UNTIL
from mirrors.domain.specs import FlowSettings
from mirrors.kafka.admin.topics import Admin, OffsetQuery


class EndOffsets:
    """`run.until`: the log ends at the first plan, the offsets of a moment, or named offsets.

    Partitions found later, or not named, are not part of the run.
    """

    def __init__(self, settings: FlowSettings) -> None:
        self._moment = settings.run_until_ms
        self._named = settings.run_until_offsets
        self._is_bounded = settings.run_until is not None
        self._committed = settings.isolation_level == "read_committed"
        self._offsets: dict[TopicPartition, int] = {}
        self._as_of: int | None = None
        # Partitions whose end offset is not known yet, and why. They are not copied.
        self.unknown: dict[TopicPartition, UnderstudyError] = {}

    def find(
        self, source: Admin, partitions: Iterable[TopicPartition], *, now: int, deadline_s: float
    ) -> dict[TopicPartition, int]:
        """Empty if the run has no end, or if its moment is in the future."""
        if not self._is_bounded or (self._moment is not None and now < self._moment):
            return {}
        wanted = list(partitions)
        if self._named:
            self._offsets, self._as_of = self._named, now
        elif self._as_of is None:
            answer = source.list_offsets(wanted, self._at, deadline_s=deadline_s)
            if not answer.done:
                answer.raise_first()
            self._offsets, self._as_of = dict(answer.done), now
            self.unknown = dict(answer.failed)
        elif late := self.unknown.keys() & set(wanted):
            # A partition without a leader accepts no records, so its end has not changed.
            answer = source.list_offsets(late, self._at, deadline_s=deadline_s)
            self._offsets |= answer.done
            self.unknown = {**self.unknown, **answer.failed}
            self.unknown = {p: e for p, e in self.unknown.items() if p not in answer.done}
        return {tp: self._offsets.get(tp, 0) for tp in wanted if tp not in self.unknown}

    @property
    def _at(self) -> OffsetQuery:
        if self._moment is not None:
            return self._moment
        return "stable" if self._committed else "latest"

    @property
    def description(self) -> str:
        """The reached end, for the status. Empty until the end offsets are known."""
        if self._as_of is None:
            return ""
        if self._named:
            return f"the offsets in {UNTIL}"
        if self._moment is None:
            return f"the ends as of {_shown(self._as_of)}"
        return f"the offsets of {_shown(self._moment)}"


def _shown(moment: int) -> str:
    return f"{dt.datetime.fromtimestamp(moment / 1000, dt.UTC):%Y-%m-%d %H:%M:%S} UTC"
