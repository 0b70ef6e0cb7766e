"""Why a topic or a consumer group is replicated or not: each rule in order, and what to change."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

from mirrors.domain.explanation import (
    Explanation,
    GroupObservation,
    TopicObservation,
    explain_group,
    explain_topic,
)
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.sync.tasks import GROUPS
from mirrors.domain.transforms.rules import first_match
from mirrors.models import Flow, FlowTopic, GroupOffset
from mirrors.services.clock import moment
from mirrors.services.sync.runs import past_runs

# A group has a row for each partition that it reads; this many suffice for the explanation.
_MOST_PARTITIONS = 2000


def explain_topic_of(*, flow: Flow, topic: str) -> dict[str, Any]:
    """The verdict on a topic name, whether it exists or not."""
    spec = flow.spec
    row = FlowTopic.objects.filter(flow=flow, topic=topic).first()
    seen = (
        TopicObservation(state=row.state, reason=row.reason, at=_time(row.as_of)) if row else None
    )
    found = explain_topic(topic, spec, looked_at=_time(flow.as_of), seen=seen)
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    match = first_match(topic, spec.settings.transforms) if found.replicated else None
    return {
        "topic": topic,
        "transform_rule": match[0] if match else None,
        "remote_topic": policy.remote_topic(topic) if found.replicated else None,
        "routes": list(match[1].routes) if match else [],
        **_said(found),
    }


def explain_group_of(*, flow: Flow, group: str, now: datetime) -> dict[str, Any]:
    """The verdict on a group name, whether it exists or not."""
    spec = flow.spec
    rows = GroupOffset.objects.filter(flow=flow)
    last = rows.order_by("-as_of").values_list("as_of", flat=True).first()
    group_partitions = [
        GroupObservation(
            topic=row.topic,
            partition=row.partition,
            state=row.sync_state,
            reason=row.reason,
            source_offset=row.source_offset,
            translated=row.translated_offset,
        )
        for row in rows.filter(group=group)[:_MOST_PARTITIONS]
    ]
    found = explain_group(
        group,
        spec.settings,
        looked_at=_time(last),
        next_look=_next_look(flow, spec.settings.refresh_groups_interval_seconds, now),
        group_partitions=group_partitions,
    )
    return {"group": group, **_said(found)}


def _said(found: Explanation) -> dict[str, Any]:
    return {
        "replicated": found.replicated,
        "reason": found.reason,
        "rules": [dataclasses.asdict(rule) for rule in found.rules],
        "fix": found.fix,
    }


def _next_look(flow: Flow, interval_s: int, now: datetime) -> str:
    past = past_runs([flow.pk], now=now).get((flow.pk, GROUPS.name))
    if past is None or past.slot is None:
        return "The groups sync task has not run yet."
    return f"The next run is at {_time(moment((past.slot + interval_s) * 1000))}."


def _time(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%H:%M:%S} UTC"
