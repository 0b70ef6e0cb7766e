"""What is owed of one topic-partition: how many records, how certain, how old, and why.

Invariants:
A. No figure is more optimistic than the facts. An unknown amount is None, never 0.
B. Only copies of the source topic's present generation count as copied. A recreated topic owes all
   its records, whatever the old position was.
C. An amount computed from offsets is an upper bound: transaction markers, aborted records and
   compacted records have offsets too. Only an empty range is counted exactly.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from mirrors.domain.account.counted_range import CountedRange
from mirrors.domain.gaps.lost_ranges import OTHER_TARGET, GapFacts, GapKind

Certainty = Literal["counted", "at_most", "at_least", "unknown"]
State = Literal[
    "in_step",
    "behind",
    "stalled",
    "waiting_for_decision",
    "cannot_be_created",
    "not_described",
    "not_visible",
    "recreated",
    "source_replaced",
    "deleted_on_source",
    "left_behind",
    "filtered",
    "unknown",
]
# Worst first: the state of a topic or flow is the first that one of its partitions is in.
SEVERITY: tuple[State, ...] = (
    "source_replaced",
    "recreated",
    "waiting_for_decision",
    "cannot_be_created",
    "not_described",
    "not_visible",
    "stalled",
    "unknown",
    "left_behind",
    "behind",
    "in_step",
    "deleted_on_source",
    "filtered",
)
# A person has to act; replication alone does not end these.
BLOCKING: frozenset[State] = frozenset(
    {
        "source_replaced",
        "recreated",
        "waiting_for_decision",
        "cannot_be_created",
        "not_described",
        "not_visible",
    }
)

# The source holds other records than those that were copied.
_OTHER_SOURCE: tuple[GapKind, ...] = ("recreated", "source_replaced")
# The copies are not where they were, so everything is owed again.
# The code of a partition whose remote topic or partition does not exist.
REMOTE_MISSING = "remote_missing"
_CODES: dict[str, State] = {
    "cannot_be_created": "cannot_be_created",
    "not_described": "not_described",
    "deleted_on_source": "deleted_on_source",
    "filtered": "filtered",
}


class PartitionFacts(NamedTuple):
    """What was observed of one topic-partition. Offsets are source offsets; times are epoch ms.

    - `first`: the first record of the present generation that the target should hold. It is used
      where no position of that generation exists.
    - `end`: the offset up to which the flow may read, observed at `observed_at`. For read_committed
      flows it is the last stable offset.
    - `position`: the next offset to copy.
    - `end_below_position`: the log end was below the position when it was read. So this is another
      log than the copied one.
    - `counted`: a range of this log whose records were counted by batch headers.
    - `code` and `reason`: why the partition is stopped.
    """

    topic: str
    partition: int
    position: int | None = None
    first: int | None = None
    end: int | None = None
    observed_at: int | None = None
    time_lag_ms: int | None = None
    is_stopped: bool = False
    code: str = ""
    reason: str = ""
    gap: GapFacts | None = None
    end_below_position: bool = False
    counted: CountedRange | None = None
    is_left_behind: bool = False


class Owed(NamedTuple):
    """What is owed of one topic-partition.

    - `records` is None exactly when `certainty` is unknown.
    - `time_lag_ms` is the age of the oldest record owed; None if unknown.
    - `least` is a lower bound of `records` that stays true however old the observation gets.
    """

    topic: str
    partition: int
    state: State
    records: int | None
    certainty: Certainty
    observed_at: int | None
    time_lag_ms: int | None
    reason: str = ""
    least: int = 0


def evaluate(facts: PartitionFacts) -> Owed:
    """Return the account of one topic-partition, as of the time of its facts."""
    records = _records(facts)
    certainty: Certainty = "at_most"
    if records is None:
        certainty = "unknown"
    elif records == 0:
        certainty = "counted"
    return Owed(
        topic=facts.topic,
        partition=facts.partition,
        state=_state(facts, records),
        records=records,
        certainty=certainty,
        observed_at=facts.observed_at,
        time_lag_ms=0 if records == 0 else facts.time_lag_ms,
        reason=facts.reason or ("" if records is not None else _why_unknown(facts)),
        least=_least(facts) if records is not None else 0,
    )


def owed_from(facts: PartitionFacts) -> int | None:
    """Return the first source offset that the target does not hold; None if unknown."""
    gap, position, first = facts.gap, facts.position, facts.first
    if gap is not None and gap.kind in _OTHER_SOURCE + OTHER_TARGET:
        return first if first is not None else gap.first
    if gap is not None and gap.kind == "truncated":
        # What was truncated and written again is owed from the truncation on.
        begins = first if first is not None else gap.first
        known = [offset for offset in (begins, gap.end) if offset is not None]
        return max(known, default=None)
    if facts.end_below_position:
        return None
    if facts.code == REMOTE_MISSING:
        # A task found it before a plan gave its gap: the copies are lost.
        return first
    return position if position is not None else first


def other_log(facts: PartitionFacts) -> str | None:
    """Return the id of the source's log if it is not the log that was copied.

    "" if that id was not seen. None if the source still holds the copied log.
    """
    gap = facts.gap
    return gap.now if gap is not None and gap.kind in _OTHER_SOURCE else None


def _records(facts: PartitionFacts) -> int | None:
    if facts.code in {"deleted_on_source", "filtered"}:
        return 0
    start = owed_from(facts)
    if start is None or facts.end is None:
        return None
    gap = facts.gap
    lost = 0
    if gap is not None and gap.kind == "remote_truncated" and gap.lost_there is not None:
        # The target lost copies below the position as well.
        lost = max(0, gap.lost_there[1] - gap.lost_there[0] + 1)
    return max(0, facts.end - start) + lost


def _least(facts: PartitionFacts) -> int:
    """The records that were counted. Offsets that nobody read may hold none."""
    start, counted = owed_from(facts), facts.counted
    if counted is None or start is None or facts.end is None:
        return 0
    if facts.code in {"deleted_on_source", "filtered"}:
        return 0
    # Retention may have deleted counted records below the log start.
    return counted.least(max(start, facts.first or 0), facts.end)


def _state(facts: PartitionFacts, records: int | None) -> State:
    if facts.code == "deleted_on_source" or facts.code == "filtered":
        return _CODES[facts.code]
    if facts.is_left_behind:
        return "left_behind"
    if facts.code in _CODES:
        return _CODES[facts.code]
    if facts.gap is not None:
        return _STATE_OF_GAP.get(facts.gap.kind, "waiting_for_decision")
    if facts.end_below_position:
        return "recreated"
    if facts.is_stopped:
        return "stalled"
    if records is None:
        return "unknown"
    return "in_step" if records == 0 else "behind"


_STATE_OF_GAP: dict[GapKind, State] = {
    "recreated": "recreated",
    "source_replaced": "source_replaced",
}


def _why_unknown(facts: PartitionFacts) -> str:
    if facts.end_below_position:
        return (
            "The source's end offset is below the replicated position: the topic was truncated or "
            "recreated, and its present records have not been compared yet."
        )
    if facts.end is None:
        return "The end offset of the source was never read."
    return "The first offset that should be replicated was never read."
