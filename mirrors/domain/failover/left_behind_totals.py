"""What decisions leave behind on the source: figures and a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrors.domain.account.sentences import STATE_TEXTS
from mirrors.domain.account.sentences import owed as owed_text
from mirrors.domain.account.totals import Total, total
from mirrors.domain.failover.left_behind import LeftBehind
from mirrors.domain.failover.partitions import PartitionAccount, with_lower_bound
from mirrors.domain.failover.plan_types import FailoverSnapshot, LeftBehindTotal
from mirrors.domain.formatting import plural
from mirrors.domain.gaps.accepted_losses import AcceptedLoss

# Groups named in one sentence.
_NAMED = 3


def left_behind_totals(
    picture: FailoverSnapshot, parts: Sequence[PartitionAccount]
) -> Iterator[LeftBehindTotal]:
    """Yield one row for each decision that covers a selected partition, and for each loss that a
    person accepted earlier."""
    by_decision: dict[LeftBehind, list[PartitionAccount]] = {}
    for part in parts:
        if part.decision is not None:
            by_decision.setdefault(part.decision, []).append(part)
    for decision in picture.left_behind:
        mine = by_decision.get(decision, [])
        if mine:
            yield _row(picture, decision, mine)
    selected = {part.row.topic for part in parts}
    for loss in picture.accepted_losses:
        if loss.topic in selected:
            yield _accepted(picture, loss)


def _accepted(picture: FailoverSnapshot, loss: AcceptedLoss) -> LeftBehindTotal:
    return LeftBehindTotal(
        topic=loss.topic,
        partition=loss.partitions[0] if len(loss.partitions) == 1 else None,
        partitions=len(loss.partitions),
        records=loss.offsets,
        certainty="unknown" if loss.offsets is None else "at_most",
        unknown=len(loss.partitions) if loss.offsets is None else 0,
        observed_at=picture.taken_at,
        groups=(),
        reason=loss.why,
        decided_by=loss.who,
        decided_at=loss.at,
        sentence=loss.sentence(picture.source, picture.target),
    )


def _row(
    picture: FailoverSnapshot, decision: LeftBehind, parts: Sequence[PartitionAccount]
) -> LeftBehindTotal:
    found = total(with_lower_bound(part.owed) for part in parts)
    groups = sorted(
        {
            group_partition.group
            for group in picture.groups
            for group_partition in group.group_partitions
            if decision.covers(group_partition.topic, group_partition.partition)
            and group_partition.source_offset is not None
        }
    )
    return LeftBehindTotal(
        topic=decision.topic,
        partition=decision.partition,
        partitions=len(parts),
        records=None if found.certainty == "unknown" else found.records,
        certainty=found.certainty,
        unknown=found.unknown,
        observed_at=found.observed_at,
        groups=tuple(groups),
        reason=decision.reason,
        decided_by=decision.decided_by,
        decided_at=decision.decided_at,
        sentence=_sentence(picture, decision, found, groups),
    )


def _sentence(
    picture: FailoverSnapshot, decision: LeftBehind, found: Total, groups: Sequence[str]
) -> str:
    many = "" if decision.partition is not None else f" ({plural(found.partitions, 'partition')})"
    text = (
        f"{decision.name}{many} is left behind on {picture.source} by decision of "
        f"{decision.decided_by} ({decision.reason}): {owed_text(found)} not replicated."
    )
    if groups:
        names = ", ".join(groups[:_NAMED])
        more = f" and {len(groups) - _NAMED:,} more" if len(groups) > _NAMED else ""
        text += f" No offset is set in it for {names}{more}."
    return text


def state_text(part: PartitionAccount) -> str:
    """Return why a part is not copied, as a predicate that follows its name."""
    if part.owed.state in ("behind", "in_step", "unknown", "stalled"):
        return "is not replicated yet"
    return f"is {STATE_TEXTS[part.owed.state]}".replace("is cannot", "cannot")
