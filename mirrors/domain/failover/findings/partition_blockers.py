"""Blockers of a failover about single topic-partitions, with how much each owes.

A decision to leave a topic or partition behind passes each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from mirrors.domain.account.sentences import amount
from mirrors.domain.account.sentences import owed as owed_text
from mirrors.domain.account.totals import total
from mirrors.domain.failover.findings.permissions import where_missing
from mirrors.domain.failover.left_behind_totals import state_text
from mirrors.domain.failover.partitions import NOT_COPIED, PartitionAccount
from mirrors.domain.failover.plan_types import FailoverSnapshot, Finding, Page
from mirrors.domain.formatting import plural

_LEAVE = "leave it behind by decision"
_CHANGED = {
    "recreated": "was truncated or recreated on {source}",
    "source_replaced": "belongs to another cluster than the one that was replicated",
}


def not_copied_blockers(
    picture: FailoverSnapshot, parts: Sequence[PartitionAccount]
) -> Iterator[Finding]:
    """Yield one finding for each selected topic that is not replicated."""
    by_topic: dict[str, list[PartitionAccount]] = {}
    for part in parts:
        # Hidden topics have no names; they have their own finding.
        if part.role == "not_copied" and part.row.topic:
            by_topic.setdefault(part.row.topic, []).append(part)
    for topic, mine in by_topic.items():
        found, worst = total(part.owed for part in mine), mine[0]
        if worst.row.code == NOT_COPIED and not found.records and not found.unknown:
            # An empty partition that no plan has named yet: it has no records to lose.
            continue
        known = [part for part in mine if part.row.partition >= 0]
        many = f" ({plural(len(known), 'partition')})" if known else ""
        is_new = worst.row.code == NOT_COPIED
        reason = "" if is_new or not worst.owed.reason else f" {ended(worst.owed.reason)}"
        text = (
            f"{topic}{many} {state_text(worst)}.{reason} Not on {picture.target}: "
            f"{owed_text(found)}. Fix the cause, or {_LEAVE}."
        )
        code = NOT_COPIED if is_new else worst.owed.state
        yield Finding(code=code, where=topic, sentence=text, page="topics", topic=topic)


def partition_blockers(
    picture: FailoverSnapshot, part: PartitionAccount, reported: Collection[str]
) -> Iterator[Finding]:
    """Yield the blockers of one part. `reported`: remote topics and clusters already reported."""
    row, owed = part.row, part.owed
    found = f"Not replicated: {amount(owed.records, owed.certainty)}."
    if owed.state in _CHANGED:
        what = _CHANGED[owed.state].format(source=picture.source)
        why = f" {ended(row.gap)}" if row.gap else ""
        text = f"{row.name} {what}.{why} {found} Decide on it, or {_LEAVE}."
        yield _finding(owed.state, part, text, "gaps")
    elif row.gap or (owed.state == "waiting_for_decision" and row.target_end is not None):
        why = ended(row.gap) or f"{row.remote_topic} was deleted or recreated on {picture.target}."
        text = f"{row.name} has an open gap: {why} {found} Decide on it first, or {_LEAVE}."
        yield _finding("gap", part, text, "gaps")
    elif owed.state == "stalled":
        text = (
            f"{row.name} is stalled, so a switchover would never drain it: {ended(row.reason)} "
            f"{found} Fix the cause, or {_LEAVE}."
        )
        yield _finding("stalled", part, text, "topics")
    reasons = {row.remote_topic, where_missing(row.remote_topic, picture.target)}
    if row.target_end is None and not reasons & set(reported):
        text = (
            f"Cannot read {row.remote_topic}-{row.partition} on {picture.target}: it does not "
            f"exist yet, or the principal lacks Describe on the topic. {found}"
        )
        yield _finding("unread", part, text, "topics")


def _finding(code: str, part: PartitionAccount, text: str, page: Page) -> Finding:
    row = part.row
    return Finding(
        code=code,
        where=row.name,
        sentence=text,
        page=page,
        topic=row.topic,
        partition=row.partition,
    )


def ended(text: str) -> str:
    """Return the text with a final period."""
    return text if not text or text.endswith(".") else f"{text}."
