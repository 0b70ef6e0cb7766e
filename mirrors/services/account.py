"""The account of a flow: what each topic-partition owes, computed from observations and stored.

One evaluation is one revision of the flow: its partitions, topics and account change together.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from mirrors.domain.account.partition import BLOCKING, Owed, PartitionFacts, evaluate
from mirrors.domain.account.totals import Total, combine, total
from mirrors.domain.flows.latency import Latency, add_up
from mirrors.domain.runners.job_files import PartitionStatus, TopicStatus
from mirrors.models import Flow, FlowAccount, FlowTopic, LeftBehind
from mirrors.services.clock import moment

# Of a topic whose partitions could not be listed.
NO_PARTITION = -1
_STOPPED = ("faulted", "gap")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Account:
    """One evaluation: every selected topic-partition, and the sum of each topic."""

    partitions: Mapping[tuple[str, int], Owed]
    topics: Mapping[str, Total]


def account_of(
    topics: Iterable[TopicStatus],
    partitions: Iterable[PartitionStatus],
    left_behind: Collection[tuple[str, int | None]] = (),
) -> Account:
    """Evaluate the observations. `left_behind` holds topics (partition None: all their partitions)
    that a person decided to leave behind."""
    owed = {(row.topic, row.partition): evaluate(facts_of(row, left_behind)) for row in partitions}
    by_topic: dict[str, list[Owed]] = defaultdict(list)
    for one in owed.values():
        by_topic[one.topic].append(one)
    sums = {
        row.topic: total(by_topic.get(row.topic) or _without_rows(row, left_behind))
        for row in topics
    }
    return Account(partitions=owed, topics=sums)


def left_behind_of(flow: Flow) -> set[tuple[str, int | None]]:
    """Topics (partition None) and partitions that a person decided to leave behind."""
    rows = LeftBehind.objects.filter(flow=flow, withdrawn_at=None)
    return {(row.decision.topic, row.decision.partition) for row in rows}


def store(
    *,
    flow: Flow,
    rows: Iterable[FlowTopic],
    not_visible: str,
    as_of: datetime,
    is_swept: bool = False,
) -> None:
    """Store the sum over all topic rows of the flow as its next revision."""
    topics = list(rows)
    totals = {row.topic: row.total for row in topics}
    whole = combine([*totals.items(), *_invisible(not_visible, as_of)])
    copied = [row for row in topics if row.state != "skipped" and row.remote_topic is not None]
    latency = add_up(Latency(*row.latency) for row in topics if row.latency)
    values = {
        "as_of": as_of,
        "is_swept": is_swept,
        "records": whole.records,
        "least": whole.least,
        "unknown": whole.unknown,
        "certainty": whole.certainty,
        "observed_at": None if whole.observed_at is None else moment(whole.observed_at),
        "time_lag_ms": whole.time_lag_ms,
        "unknown_lags": whole.unknown_lags,
        "partitions": whole.partitions,
        "states": dict(whole.states),
        "unknown_topics": list(whole.unknown_topics),
        "topics_copied": len(copied),
        "topics_left_out": len(topics) - len(copied),
        "topics_blocked": sum(row.account_state in BLOCKING for row in topics),
        "worst_topic": _worst(topics),
        "latency": list(latency) if latency else None,
        "not_visible": not_visible,
    }
    before = FlowAccount.objects.filter(flow=flow).values_list("revision", flat=True).first() or 0
    FlowAccount.objects.update_or_create(flow=flow, defaults={**values, "revision": before + 1})


def _worst(topics: Iterable[FlowTopic]) -> str:
    """The topic that owes the oldest record, then the most records; unknown sorts as most."""
    owing = [row for row in topics if row.owed or row.unknown_partitions]
    worst = max(
        owing,
        key=lambda row: (row.unknown_partitions, row.time_lag_ms or 0, row.owed),
        default=None,
    )
    return worst.topic if worst is not None else ""


def _invisible(not_visible: str, as_of: datetime) -> Iterable[tuple[str, Total]]:
    """Topics that the principal cannot see owe an unknown amount."""
    if not_visible:
        at = round(as_of.timestamp() * 1000)
        yield "", total([Owed("", NO_PARTITION, "not_visible", None, "unknown", at, None)])


def facts_of(
    row: PartitionStatus, left_behind: Collection[tuple[str, int | None]] = ()
) -> PartitionFacts:
    """A runner's partition row as facts of the account."""
    stable = row.source_stable_end
    return PartitionFacts(
        topic=row.topic,
        partition=row.partition,
        position=row.position,
        first=row.source_first,
        end=row.source_end if stable is None else stable,
        observed_at=row.as_of or None,
        time_lag_ms=row.time_lag_ms,
        is_stopped=row.state in _STOPPED,
        code=row.code,
        reason=row.reason,
        gap=row.gap,
        end_below_position=row.source_end_below_position,
        counted=row.counted,
        is_left_behind=is_left(row.topic, row.partition, left_behind),
    )


def is_left(topic: str, partition: int, left_behind: Collection[tuple[str, int | None]]) -> bool:
    return bool(left_behind) and ((topic, None) in left_behind or (topic, partition) in left_behind)


def _without_rows(
    row: TopicStatus, left_behind: Collection[tuple[str, int | None]]
) -> Iterable[Owed]:
    """A topic without listed partitions: it owes nothing, or an unknown amount."""
    if row.state == "faulted" or row.code in ("cannot_be_created", "not_described"):
        for number in range(row.partitions) if row.partitions else (NO_PARTITION,):
            yield evaluate(
                PartitionFacts(
                    topic=row.topic,
                    partition=number,
                    is_stopped=True,
                    code=row.code,
                    reason=row.reason,
                    is_left_behind=is_left(row.topic, number, left_behind),
                )
            )
        return
    if row.state == "skipped" or row.code:
        code = row.code or "filtered"
        yield evaluate(PartitionFacts(topic=row.topic, partition=NO_PARTITION, code=code))
        return
    # Selected, but no plan has listed its partitions yet.
    for number in range(row.partitions):
        yield evaluate(PartitionFacts(topic=row.topic, partition=number))
