"""One partition as the driver knows it: where it stands, how far the source reaches, its state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mirrors.domain.account.partition import PartitionFacts, owed_from
from mirrors.domain.gaps.foreign_records import Stretch, unknown_yet
from mirrors.domain.gaps.lost_ranges import GapKind
from mirrors.domain.runners.job_files import JobState, TopicState
from spark_runner.ipc.messages import PartitionError, PartitionFigure
from spark_runner.status.time_lag import FirstRecords

# Who is so far behind for so long is catching up; less is the beat of commits.
LAGGING_MS = 10_000
# So often the age of the first record is asked for.
FIRST_TRIES = 5
# Gaps of a source that holds another log than the one that was copied.
REPLACED_LOG: tuple[GapKind, ...] = ("recreated", "source_replaced", "truncated")
# The control plane takes them up every two seconds.
MOST_FOREIGN = 200


class PartitionProgress:
    """What is known of one partition."""

    __slots__ = (
        "caught_up_at",
        "end",
        "ends_as_of",
        "foreign",
        "is_end_below_position",
        "is_log_start_dense",
        "lane",
        "left_out",
        "log_start",
        "log_start_timestamp",
        "next_remote_offset",
        "offsets_passed",
        "position",
        "records_copied",
        "repeats",
        "stable_end",
        "timestamp",
        "timestamp_tries",
        "why",
    )

    def __init__(self, position: int | None) -> None:
        self.position = position
        self.timestamp: int | None = None
        self.end: int | None = None
        self.stable_end: int | None = None
        # The source's log start; sampled only where no position says what is owed.
        self.log_start: int | None = None
        # The timestamp of the record there.
        self.log_start_timestamp: int | None = None
        # Whether each of the first offsets there holds a record.
        self.is_log_start_dense = False
        # How often that record was asked for.
        self.timestamp_tries = 0
        # The source ended below the position that had been committed before it was asked.
        self.is_end_below_position = False
        self.ends_as_of = 0
        self.lane = self.why = ""
        self.left_out = 0
        # Offsets that the position passed, and the records among them; null: not counted.
        self.offsets_passed = 0
        self.records_copied: int | None = 0
        # The newest of what others wrote into the remote partition.
        self.foreign: deque[Stretch] = deque(maxlen=MOST_FOREIGN)
        self.repeats: int | None = None
        # Where the next batch belongs in the remote partition.
        self.next_remote_offset: int | None = None
        self.caught_up_at: int | None = None

    def apply_figure(self, figure: PartitionFigure, now: int) -> None:
        if self.position is not None:
            self.offsets_passed += figure.position - self.position
        if figure.copied is None:
            self.records_copied = None
        elif self.records_copied is not None:
            self.records_copied += figure.copied
        self.position, self.lane, self.why = figure.position, figure.lane, figure.why
        self.left_out += figure.left_out
        self.add_foreign(figure.strangers)
        self.repeats = figure.repeats
        self.next_remote_offset = figure.there
        self.timestamp = figure.timestamp or self.timestamp
        if not self.is_end_below_position:
            # The ends were asked a moment ago, and what was copied since was there: never behind.
            self.end = None if self.end is None else max(self.end, figure.position)
            self.stable_end = (
                None if self.stable_end is None else max(self.stable_end, figure.position)
            )
        self._note_caught_up(now)

    def add_foreign(self, stretches: Iterable[Stretch]) -> None:
        """Foreign records; what a look at a quiet partition found is found once more by the lane
        that then writes behind it."""
        for stretch in stretches:
            last = self.foreign[-1] if self.foreign else None
            if last is not None and last.first <= stretch.first <= last.last:
                self.foreign.extend(unknown_yet([stretch], last.last + 1))
            elif last is not None and stretch.first < last.first <= last.last <= stretch.last:
                self.foreign[-1] = stretch
            else:
                self.foreign.append(stretch)

    def apply_sample(
        self,
        end: int | None,
        stable: int | None,
        as_of: int,
        *,
        first: int | None = None,
        records: FirstRecords | None = None,
        asked_at: int | None = None,
        is_stopped: bool = False,
    ) -> None:
        """Take up a sample of the source.

        `asked_at` is the position that was committed when the source was asked: a log that ends
        below it is not the log that was copied. `is_stopped`: the partition is stopped, so what the
        source holds now is taken as it is.
        """
        if first is not None and first != self.log_start:
            # A timestamp that came with it is of the record that was first before.
            self.log_start, self.log_start_timestamp, self.timestamp_tries = first, None, 0
        elif records is not None:
            self.log_start_timestamp, self.is_log_start_dense = records
        if end is None and stable is None:
            # Its leader did not answer: what is known has the age that it had.
            return
        self.is_end_below_position = end is not None and asked_at is not None and end < asked_at
        floor = 0 if is_stopped or self.is_end_below_position else self.position or 0
        self.end = self.end if end is None else max(end, floor)
        self.stable_end = self.stable_end if stable is None else max(stable, floor)
        self.ends_as_of = as_of
        self._note_caught_up(as_of)

    def forget_source(self) -> None:
        """What was sampled is of another log than the one that is there now."""
        self.log_start = self.log_start_timestamp = self.end = self.stable_end = None

    def is_dense(self, error: PartitionError | None = None) -> bool:
        """Whether each offset held a record as far as was seen: no markers, nothing compacted.

        Of those that were copied, or of the first ones of a log that is not copied.
        """
        if self.log_start_timestamp is not None and self._owed_from(error) == self.log_start:
            return self.is_log_start_dense
        return self.offsets_passed > 0 and self.records_copied == self.offsets_passed

    @property
    def is_caught_up(self) -> bool:
        """Whether all that the source is known to hold is copied."""
        if self.position is None or self.stable_end is None or self.is_end_below_position:
            return False
        return self.position >= self.stable_end

    def _note_caught_up(self, now: int) -> None:
        if self.is_caught_up:
            self.caught_up_at = now

    def time_lag(self, now: int, error: PartitionError | None = None) -> int | None:
        """Age of the oldest record that is owed: of the first one where its timestamp is known,
        else at most the time since none was owed.

        None where it is not known; a gap is measured against what the source holds now.
        """
        start = self._owed_from(error)
        if start is None or self.stable_end is None:
            return None
        if start >= self.stable_end:
            return 0
        if start == self.log_start and self.log_start_timestamp is not None:
            return max(0, now - self.log_start_timestamp)
        known = [t for t in (self.caught_up_at, self.timestamp) if t is not None]
        return max(0, now - max(known)) if known else None

    def _owed_from(self, error: PartitionError | None) -> int | None:
        if error is None and not self.is_end_below_position:
            return self.position
        return owed_from(
            PartitionFacts(
                topic="",
                partition=0,
                position=self.position,
                first=self.log_start,
                gap=error.gap if error else None,
                end_below_position=is_log_replaced(self, error),
            )
        )


def is_log_replaced(row: PartitionProgress, error: PartitionError | None) -> bool:
    """Whether the source may hold another log than the one that was copied, and no plan has named
    that gap yet."""
    gap = error.gap if error else None
    if gap is not None and gap.kind in REPLACED_LOG:
        return False
    if error is not None and error.state == "gap" and gap is None:
        return True
    return row.is_end_below_position


def state_of(
    row: PartitionProgress, error: PartitionError | None, flow: JobState, time_lag: int | None
) -> TopicState:
    if error is not None:
        return error.state
    if flow in ("paused", "stopped"):
        return "paused"
    if row.stable_end is None or row.position is None:
        return "pending"
    if row.is_caught_up:
        return "in_sync"
    if row.is_end_below_position:
        return "lagging"
    return "lagging" if time_lag is None or time_lag > LAGGING_MS else "syncing"
