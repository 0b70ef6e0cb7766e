"""The failover plan: from pictures of both sides to loss, re-reads, blockers and client changes.

Invariants:
A. Numbers come from observed offsets, each with its age. A number that was not observed is None.
B. The loss is what the account says is owed, over every selected topic-partition, copied or not. It
   counts offsets, so it is an upper bound: transaction markers and compacted records are included.
   A simulation counts the records.
C. A sum has a certainty and the number of its unknown parts. One unknown part hides no known one.
D. A group never gets an unverified offset. Without an offset it is a blocker, not "latest".
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from mirrors.domain.account.partition import Certainty as OwedCertainty
from mirrors.domain.account.partition import Owed
from mirrors.domain.account.sentences import owed as owed_text
from mirrors.domain.account.totals import Total, certainty_of, total
from mirrors.domain.failover.client_changes import ClientChange, client_changes
from mirrors.domain.failover.findings.blockers import find_blockers, find_warnings
from mirrors.domain.failover.left_behind_totals import left_behind_totals
from mirrors.domain.failover.partitions import (
    PartitionAccount,
    Role,
    partition_accounts,
    with_lower_bound,
    without_excluded,
)
from mirrors.domain.failover.plan_types import (
    Certainty,
    FailoverSnapshot,
    Finding,
    GroupPartitionPlan,
    LeftBehindTotal,
    PartitionPlan,
    PartitionSnapshot,
)
from mirrors.domain.failover.preconditions import FenceSupport
from mirrors.domain.failover.scope import Scope
from mirrors.domain.groups.resume import GroupPartition, resume_offset_of
from mirrors.domain.replication_policy import ReplicationPolicy


class ReReads(NamedTuple):
    """A sum of re-reads. `unknown` counts the group-partitions without a figure."""

    records: int
    certainty: OwedCertainty
    unknown: int


def sum_re_reads(group_partitions: Iterable[GroupPartitionPlan]) -> ReReads:
    """Sum the re-reads. Group offsets that were read earlier give only a lower bound."""
    rows: list[tuple[int | None, OwedCertainty]] = []
    for group_partition in group_partitions:
        if group_partition.re_reads is None:
            rows.append((None, "unknown"))
        elif group_partition.seen_at is not None:
            rows.append((group_partition.re_reads, "at_least"))
        else:
            is_exact = group_partition.re_reads == 0 or group_partition.outcome not in (
                "expired",
                "lower_bound",
            )
            rows.append((group_partition.re_reads, "counted" if is_exact else "at_most"))
    return sum_owed(rows)


def sum_owed(rows: Iterable[tuple[int | None, OwedCertainty]]) -> ReReads:
    found = list(rows)
    known = sum(records for records, _ in found if records is not None)
    certainty = certainty_of((certainty for _, certainty in found), known=known > 0)
    unknown = sum(records is None for records, _ in found)
    return ReReads(known, certainty, unknown)


# Figures from before that are too old to act upon.
OLDEST_MS = 15 * 60 * 1000


@dataclasses.dataclass(frozen=True, kw_only=True)
class FailoverPlan:
    """The whole plan. It stays valid while nothing in it got worse.

    - `partitions` take part. `not_copied` are selected but not replicated. `left_behind` are
      decisions, and `left_partitions` their topic-partitions.
    - `loss_known` sums what is known of all three; `loss_unknown` counts the partitions without a
      figure. `loss` is the same sum for readers that cannot show a certainty: None if a part is
      unknown. The same holds for re-reads.
    - `pending`: what a switchover waits for, the loss of `partitions`; None while one is unknown.
    - `fence`: what the source reports of ACLs; None if it was unreachable.
    - `scope`: the application that is failed over; None for everything.
    """

    flow: str
    taken_at: int
    loss: int | None
    certainty: Certainty
    re_reads: int | None
    partitions: tuple[PartitionPlan, ...]
    places: tuple[GroupPartitionPlan, ...]
    blockers: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    clients: tuple[ClientChange, ...]
    loss_known: int = 0
    loss_certainty: OwedCertainty = "unknown"
    loss_unknown: int = 0
    loss_sentence: str = ""
    pending: int | None = None
    re_reads_known: int = 0
    re_reads_certainty: OwedCertainty = "unknown"
    re_reads_unknown: int = 0
    not_copied: tuple[PartitionPlan, ...] = ()
    left_behind: tuple[LeftBehindTotal, ...] = ()
    left_partitions: tuple[PartitionPlan, ...] = ()
    fence: FenceSupport | None = None
    scope: Scope | None = None

    @property
    def every_partition(self) -> tuple[PartitionPlan, ...]:
        return (*self.partitions, *self.not_copied, *self.left_partitions)

    @functools.cached_property
    def digest(self) -> str:
        """The digest of what the plan says, independent of its time."""
        return _digest(_plain(self))

    def to_dict(self) -> dict[str, Any]:
        said = _plain(self)
        # Computed here from the same rows: a plan may have hundreds of thousands.
        self.__dict__.setdefault("digest", _digest(said))
        return {"digest": self.digest, **said}


def _digest(said: Mapping[str, Any]) -> str:
    timeless = {name: value for name, value in said.items() if name != "taken_at"}
    text = json.dumps(timeless, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _plain(value: Any) -> Any:
    """As `dataclasses.asdict`, which copies each scalar and takes several times as long."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {
            name: found if type(found := getattr(value, name)) in _SCALARS else _plain(found)
            for name in _field_names(kind)
        }
    if isinstance(value, dict):
        return {_plain(key): _plain(found) for key, found in value.items()}
    if isinstance(value, tuple):
        return tuple(_plain(found) for found in value)
    if isinstance(value, list):
        return [_plain(found) for found in value]
    return value


@functools.cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def plan_failover(picture: FailoverSnapshot, *, oldest_ms: int = OLDEST_MS) -> FailoverPlan:
    """Return all that a failover of these groups needs and costs, as of the picture."""
    parts = partition_accounts(picture)
    whole, picture = picture, without_excluded(picture, parts)
    plans: dict[Role, list[PartitionPlan]] = {"replicated": [], "not_copied": [], "left_behind": []}
    for part in parts:
        plans[part.role].append(_partition(part, picture.taken_at))
    partitions = tuple(plans["replicated"])
    by_place = {(row.topic, row.partition): row for row in partitions}
    group_partitions = tuple(
        _planned(
            group_partition,
            by_place.get((group_partition.topic, group_partition.partition)),
            group.seen_at,
        )
        for group in picture.groups
        for group_partition in group.group_partitions
        if not group_partition.left_out and not group_partition.has_no_offset
    )
    offsets, loss, pending = _totals(parts)
    re_reads = sum_re_reads(group_partitions)
    return FailoverPlan(
        flow=picture.flow,
        taken_at=picture.taken_at,
        loss=offsets.exact_or_none,
        certainty=_certainty(picture, [row.certainty for rows in plans.values() for row in rows]),
        re_reads=None if re_reads.unknown else re_reads.records,
        partitions=partitions,
        places=group_partitions,
        blockers=tuple(find_blockers(picture, parts, group_partitions, oldest_ms)),
        warnings=tuple(find_warnings(picture, partitions, group_partitions)),
        clients=_clients(picture),
        loss_known=loss.records,
        loss_certainty=loss.certainty,
        loss_unknown=loss.unknown,
        loss_sentence=_loss_sentence(offsets, loss),
        pending=pending.exact_or_none,
        re_reads_known=re_reads.records,
        re_reads_certainty=re_reads.certainty,
        re_reads_unknown=re_reads.unknown,
        not_copied=tuple(plans["not_copied"]),
        left_behind=tuple(left_behind_totals(whole, parts)),
        left_partitions=tuple(plans["left_behind"]),
        fence=picture.fence,
        scope=picture.scope,
    )


def _totals(parts: Iterable[PartitionAccount]) -> tuple[Total, Total, Total]:
    """Return what is owed by offsets, what can be stated of it, and what a switchover waits for."""
    parts = list(parts)
    mine = [part.owed for part in parts if part.role == "replicated"]
    every = [part.owed for part in parts]
    return total(every), total(with_lower_bound(owed) for owed in every), total(mine)


def _loss_sentence(offsets: Total, loss: Total) -> str:
    text = owed_text(loss)
    if offsets.records > loss.records:
        return f"{text} ({offsets.records:,} by offsets when last seen)"
    return text


def _certainty(picture: FailoverSnapshot, rows: Collection[Certainty]) -> Certainty:
    if "unknown" in rows:
        return "unknown"
    return (
        "last_known" if picture.deleted_seen_at is not None or "last_known" in rows else "observed"
    )


def _clients(picture: FailoverSnapshot) -> tuple[ClientChange, ...]:
    return client_changes(
        picture.policy,
        bootstrap=picture.target_bootstrap,
        topics={
            group.group: [
                (group_partition.topic, _name_there(picture.policy, group_partition))
                for group_partition in group.group_partitions
                if not group_partition.left_out
            ]
            for group in picture.groups
        },
        produced=[row.topic for row in picture.partitions],
    )


def _name_there(policy: ReplicationPolicy, group_partition: GroupPartition) -> str:
    if group_partition.route:
        return group_partition.route
    if policy.is_cycle(group_partition.topic):
        return group_partition.remote_topic or group_partition.topic
    return policy.remote_topic(group_partition.topic)


def _partition(part: PartitionAccount, now: int) -> PartitionPlan:
    row, owed = part.row, part.owed
    return PartitionPlan(
        topic=row.topic,
        partition=row.partition,
        remote_topic=row.remote_topic,
        position=row.position,
        source_end=row.source_end,
        source_end_age_ms=None if row.source_end_at is None else max(0, now - row.source_end_at),
        target_end=row.target_end,
        loss=owed.records,
        certainty=_seen(row, owed),
        reason=_why(row, owed),
        loss_certainty=owed.certainty,
        least=owed.least,
        state=owed.state,
        owed_from=part.start,
        other_log=part.other_log,
    )


def _seen(row: PartitionSnapshot, owed: Owed) -> Certainty:
    if owed.records is None:
        return "unknown"
    return "observed" if row.source_end_at is None else "last_known"


def _why(row: PartitionSnapshot, owed: Owed) -> str:
    if row.source_end is None and not row.reason:
        return "the source is unreachable, and no earlier end offset of it is known"
    if owed.reason:
        return owed.reason
    if row.source_end_at is not None:
        return "records that the source received after this figure are lost as well"
    return "no record was replicated yet" if row.position is None else ""


def _planned(
    group_partition: GroupPartition, partition: PartitionPlan | None, seen_at: int | None
) -> GroupPartitionPlan:
    resume = resume_offset_of(group_partition)
    downstream = resume.downstream
    loss = unread = None
    if partition is not None and partition.source_end is not None:
        loss = partition.loss
        behind = max(group_partition.source_offset or 0, partition.position or 0)
        unread = min(loss or 0, max(0, partition.source_end - behind))
    ended = group_partition.target_end is None or downstream is None
    return GroupPartitionPlan(
        group=group_partition.group,
        topic=group_partition.topic,
        partition=group_partition.partition,
        remote_topic=group_partition.remote_topic or "",
        source_offset=group_partition.source_offset,
        downstream_offset=downstream,
        outcome=resume.outcome,
        re_reads=resume.re_reads,
        skipped=resume.skipped,
        seen_at=seen_at,
        loss=loss,
        unread_loss=unread,
        waiting=None if ended else max(0, (group_partition.target_end or 0) - (downstream or 0)),
        reason=resume.reason,
        route=group_partition.route,
    )
