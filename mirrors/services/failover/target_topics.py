"""State of the target's topics as the sync tasks last saw it: drift, and the flow's plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from mirrors.domain.cluster_snapshot import TopicState
from mirrors.domain.failover.preconditions import DriftFinding, TargetTopics
from mirrors.domain.topics.acls import WRITE_RULES, sentences_with
from mirrors.domain.topics.drift import Deviation
from mirrors.models import Drift, Flow, FlowPlan
from mirrors.models.drift import DriftState
from mirrors.services.clock import milliseconds

_LEFT = (DriftState.ACCEPTED, DriftState.IGNORED)
_RULES = ("topic acl", "group acl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TargetTopicRows:
    """Rows of the last observations; Kafka is not read again."""

    drift: tuple[Drift, ...]
    plan: FlowPlan | None

    @property
    def topics(self) -> set[str]:
        """Remote topics that were missing, or incomplete, at the last observation."""
        gone = {row.name for row in self.drift if row.kind == "deleted topic"}
        return gone | {
            name for kind in ("create topic", "add partitions") for name in self.of(kind)
        }

    def of(self, *kinds: str) -> dict[str, Mapping[str, Any]]:
        rows = self.plan.changes if self.plan is not None else []
        return {row["name"]: row for row in rows if row["kind"] in kinds}


def read_target_topics(flow: Flow) -> TargetTopicRows:
    plan = FlowPlan.objects.filter(flow=flow, as_of__isnull=False).first()
    rows = Drift.objects.filter(flow=flow, closed_at=None).order_by("opened_at", "pk")
    return TargetTopicRows(drift=tuple(rows), plan=plan)


def target_topics(rows: TargetTopicRows, topics: Mapping[str, TopicState]) -> TargetTopics:
    """`topics` as the target has them now: what was created meanwhile is not reported."""
    return TargetTopics(
        seen_at=None
        if rows.plan is None or rows.plan.as_of is None
        else milliseconds(rows.plan.as_of),
        drifted=tuple(_drifted(rows, topics)),
        missing=tuple(sorted(name for name in rows.of("create topic") if name not in topics)),
        too_few_partitions=tuple(sorted(_too_few_partitions(rows, topics))),
        settings=tuple(sorted(rows.of("topic config"))),
        rules=tuple(sorted(rows.of(*_RULES))),
        left=tuple(_left(rows)),
        replicas={name: topic.replication_factor for name, topic in topics.items()},
    )


def _drifted(rows: TargetTopicRows, topics: Mapping[str, TopicState]) -> Iterator[DriftFinding]:
    for row in rows.drift:
        if row.kind == "deleted topic" and row.name in topics:
            continue
        facts: dict[str, Any] = {"kind": row.kind, "name": row.name, "key": row.key}
        seen = Deviation(**facts, expected=row.expected, found=row.found, wanted=row.wanted)
        yield DriftFinding(
            **facts, found=row.found, sentence=seen.sentence, decided=row.state in _LEFT
        )


def _left(rows: TargetTopicRows) -> Iterator[str]:
    """Producers had these permissions on the source, and have them nowhere else."""
    if rows.plan is not None:
        yield from sentences_with(WRITE_RULES, rows.plan.left_out, rows.plan.codes)


def _too_few_partitions(
    rows: TargetTopicRows, topics: Mapping[str, TopicState]
) -> Iterator[tuple[str, int, int]]:
    for name, change in rows.of("add partitions").items():
        needs = int(change["after"])
        if name in topics and topics[name].partitions < needs:
            yield name, topics[name].partitions, needs
