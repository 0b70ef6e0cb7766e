"""The progress of one partition: position, source offsets, foreign records, state."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from mirrors.domain.account.counted_range import BatchCount, CountedRange, RecordCounter
from mirrors.domain.account.partition import (
    REMOTE_MISSING,
    PartitionFacts,
    owed_from,
)
from mirrors.domain.flows.latency import LatencyWindow
from mirrors.domain.gaps.foreign_records import ForeignRange, unreported_ranges
from mirrors.domain.gaps.lost_ranges import LOST_COPIES, GapKind
from mirrors.domain.runners.job_files import JobState, TopicState
from spark_runner.ipc.messages import PartitionError, PartitionFigure

# A partition that is further behind is lagging. A smaller lag is normal between commits.
LAGGING_MS = 10_000
# A power of two of samples: the longest backoff of reads that give nothing, as when READ is denied.
MAX_HEADER_BACKOFF = 6
# Gaps where the source holds another log than the one that was copied.
REPLACED_LOG: tuple[GapKind, ...] = ("recreated", "source_replaced", "truncated")
# The control plane reads them every two seconds.
MAX_FOREIGN_RANGES = 200


class PartitionProgress:
    """Progress of one partition."""

    __slots__ = (
        "caught_up_at",
        "counter",
        "dead_letters",
        "end",
        "ends_as_of",
        "foreign",
        "header_tries",
        "header_turn",
        "is_end_below_position",
        "is_lasting_lag",
        "lane",
        "latency",
        "left_out",
        "log_start",
        "log_start_timestamp",
        "next_remote_offset",
        "position",
        "repeats",
        "stable_end",
        "timestamp",
        "why",
    )

    def __init__(self, position: int | None) -> None:
        self.position = position
        self.timestamp: int | None = None
        self.end: int | None = None
        self.stable_end: int | None = None
        # The source's log start. Sampled only for partitions whose owed offsets it determines.
        self.log_start: int | None = None
        # The timestamp of the record at the log start.
        self.log_start_timestamp: int | None = None
        # Counts the owed records by their batch headers; None where nothing was read.
        self.counter: RecordCounter | None = None
        # Consecutive reads of headers without a result.
        self.header_tries = 0
        # When they were last read: a count of samples of the flow.
        self.header_turn = 0
        # What the source held one sample ago is not copied yet.
        self.is_lasting_lag = False
        # The source ended below the position that was committed before the sample.
        self.is_end_below_position = False
        self.ends_as_of = 0
        self.lane = self.why = ""
        self.left_out = 0
        self.latency = LatencyWindow()
        # The newest foreign records in the remote partition, and in those of routes.
        self.foreign: deque[ForeignRange] = deque(maxlen=MAX_FOREIGN_RANGES)
        self.repeats: int | None = None
        self.dead_letters: int | None = None
        # The remote offset of the next batch.
        self.next_remote_offset: int | None = None
        # The moment of the newest source sample of which everything is copied.
        self.caught_up_at: int | None = None

    def apply_figure(self, figure: PartitionFigure, now: int) -> None:
        self.latency.add(figure.latency, now)
        self.position, self.lane, self.why = figure.position, figure.lane, figure.why
        self.left_out += figure.left_out
        self.add_foreign(figure.foreign)
        self.repeats, self.dead_letters = figure.repeats, figure.dead_letters
        self.next_remote_offset = figure.next_downstream
        self.timestamp = figure.timestamp or self.timestamp
        if not self.is_end_below_position:
            # The offsets were sampled earlier; records copied since then existed at the source.
            self.end = None if self.end is None else max(self.end, figure.position)
            self.stable_end = (
                None if self.stable_end is None else max(self.stable_end, figure.position)
            )
        self._note_caught_up()

    def add_foreign(self, stretches: Iterable[ForeignRange]) -> None:
        """Add ranges of foreign records. A lane finds again what a scan of the idle partition
        found."""
        for stretch in stretches:
            mine = [at for at, row in enumerate(self.foreign) if row.route == stretch.route]
            last = self.foreign[mine[-1]] if mine else None
            if last is not None and last.first <= stretch.first <= last.last:
                self.foreign.extend(unreported_ranges([stretch], last.last + 1))
            elif last is not None and stretch.first < last.first <= last.last <= stretch.last:
                self.foreign[mine[-1]] = stretch
            else:
                self.foreign.append(stretch)

    def apply_sample(
        self,
        end: int | None,
        stable: int | None,
        as_of: int,
        *,
        first: int | None = None,
        headers: Iterable[BatchCount] = (),
        asked_at: int | None = None,
        is_stopped: bool = False,
        is_log_known: bool = False,
    ) -> None:
        """Apply a sample of the source.

        `asked_at` is the position committed before the sample: a log that ends below it is not the
        log that was copied. `is_stopped`: the partition is stopped, so the sample is taken as it
        is. `is_log_known`: a gap names the log that the source holds now, and the counter is of it.
        """
        if first is not None and first != self.log_start:
            # Headers in this sample may be of the previous log start.
            self.log_start, self.log_start_timestamp, self.header_tries = first, None, 0
        else:
            self._count(headers)
        if end is None and stable is None:
            # The leader did not respond: the known offsets keep their age.
            return
        self.is_end_below_position = end is not None and asked_at is not None and end < asked_at
        if self.is_end_below_position and not is_log_known:
            self.counter = None
        self.is_lasting_lag = self.stable_end is not None and not self.is_caught_up
        floor = 0 if is_stopped or self.is_end_below_position else self.position or 0
        self.end = self.end if end is None else max(end, floor)
        self.stable_end = self.stable_end if stable is None else max(stable, floor)
        self.ends_as_of = as_of
        self._note_caught_up()

    def forget_source(self) -> None:
        """Discard offsets that were sampled from another log."""
        self.log_start = self.log_start_timestamp = self.end = self.stable_end = None
        self.counter, self.header_tries = None, 0

    def _count(self, headers: Iterable[BatchCount]) -> None:
        for batch in headers:
            counter = self.counter
            if counter is None:
                return
            if counter.end == self.log_start == counter.first and batch.commits is None:
                self.log_start_timestamp = batch.timestamp if batch.timestamp >= 0 else None
            counter.add((batch,))

    def note_header_read(self, turn: int, *, is_empty: bool) -> None:
        self.header_turn = turn
        self.header_tries = self.header_tries + 1 if is_empty else 0

    def is_header_due(self, turn: int) -> bool:
        """Reads without a result are repeated with backoff: after 2, 4, 8 samples and so on."""
        if not self.header_tries:
            return True
        return turn >= self.header_turn + (1 << min(self.header_tries, MAX_HEADER_BACKOFF))

    def next_header(self, error: PartitionError | None = None) -> int | None:
        """The offset from which headers of owed records are to be read next, if the source holds
        records there; None if they are not needed.

        Records that are copied a moment later are not read twice: a partition without an error must
        have been behind for a whole sample.
        """
        is_behind = self.is_lasting_lag and not self.is_caught_up
        if error is None and not is_behind and self.position is not None:
            return None
        start = self._owed_from(error)
        if start is None:
            return None
        counter = self.counter
        if counter is None or not counter.first <= start < counter.end:
            counter = self.counter = RecordCounter(start)
        return counter.end

    def counted(self, error: PartitionError | None = None) -> CountedRange | None:
        """The counted part of what is owed."""
        start = self._owed_from(error)
        if self.counter is None or start is None or self.counter.end <= start:
            return None
        return self.counter.counted

    @property
    def is_caught_up(self) -> bool:
        """Whether everything that the source is known to hold is copied."""
        if self.position is None or self.stable_end is None or self.is_end_below_position:
            return False
        return self.position >= self.stable_end

    def _note_caught_up(self) -> None:
        """Nothing written before the sample is owed. What was written since is not known."""
        if self.is_caught_up:
            self.caught_up_at = self.ends_as_of

    def time_lag(self, now: int, error: PartitionError | None = None) -> int | None:
        """The age of the oldest owed record in ms, or an upper bound: the time since nothing was
        owed.

        None if unknown. A gap is measured against what the source holds now.
        """
        start = self._owed_from(error)
        if start is None or self.stable_end is None:
            return None
        if start >= self.stable_end:
            return 0
        if start == self.log_start and self.log_start_timestamp is not None:
            return max(0, now - self.log_start_timestamp)
        if _has_lost_copies(error):
            # They are older than the time since nothing was owed.
            return None
        known = [t for t in (self.caught_up_at, self.timestamp) if t is not None]
        return max(0, now - max(known)) if known else None

    def _owed_from(self, error: PartitionError | None) -> int | None:
        if error is None and not self.is_end_below_position:
            # Without a position nothing was planned yet, and everything is owed.
            return self.log_start if self.position is None else self.position
        return owed_from(
            PartitionFacts(
                topic="",
                partition=0,
                position=self.position,
                first=self.log_start,
                code=error.code if error else "",
                gap=error.gap if error else None,
                end_below_position=is_log_replaced(self, error),
            )
        )


def _has_lost_copies(error: PartitionError | None) -> bool:
    if error is None:
        return False
    return error.code == REMOTE_MISSING or (error.gap is not None and error.gap.kind in LOST_COPIES)


def is_log_replaced(row: PartitionProgress, error: PartitionError | None) -> bool:
    """Whether the source may hold another log than the one that was copied, before a plan has named
    the gap."""
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
