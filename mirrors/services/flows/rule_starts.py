"""From which source offset a changed rule applies: known when each slice copies with it.

The runner reports the edit that each slice's task copies with. The positions of the first such
report are at or behind the first offset of that task, so from there on the present rule applies.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from mirrors.domain.runners.job_files import JobStatus
from mirrors.domain.transforms.rules import TRANSFORMS, is_same_rule, parse_rules, rule_number
from mirrors.models import Flow, RuleStart, SettingChange


def note_rule_starts(*, flow: Flow, status: JobStatus, as_of: datetime) -> None:
    """Store the positions of partitions whose rule was changed, once each slice has the edit."""
    if status.generation == flow.rules_known or not status.is_planned:
        return
    if any(row.generation < status.generation or row.state == "starting" for row in status.slices):
        return
    edits = SettingChange.objects.filter(
        flow=flow,
        key=TRANSFORMS,
        generation__gt=flow.rules_known,
        generation__lte=status.generation,
    )
    changed = _changed_topics(edits, {row.topic for row in status.partitions})
    RuleStart.objects.bulk_create(
        [
            RuleStart(
                flow=flow,
                topic=row.topic,
                partition=row.partition,
                offset=row.position,
                when=as_of,
            )
            for row in status.partitions
            if row.topic in changed and row.position is not None
        ],
        update_conflicts=True,
        unique_fields=["flow", "topic", "partition"],
        update_fields=["offset", "when"],
    )
    Flow.objects.filter(pk=flow.pk).update(rules_known=status.generation)


def why_rules_unknown(flow: Flow, topic: str) -> str:
    """Why it is not known from which offset the present rule of a topic applies; empty if it is."""
    edits = SettingChange.objects.filter(flow=flow, key=TRANSFORMS, generation__gt=flow.rules_known)
    if not _changed_topics(edits, {topic}):
        return ""
    number = rule_number(topic, flow.spec.settings.transforms)
    rule = "The rule of this topic was removed" if number is None else f"Rule {number} was changed"
    return (
        f"{rule}, and the runner has not reported yet from which offset it copies so. Compare "
        "again in a minute; restart a runner that was started before an update."
    )


def _changed_topics(edits: Iterable[SettingChange], topics: Iterable[str]) -> set[str]:
    """The topics whose rule one of these edits changes."""
    pairs = [(parse_rules(row.before or ""), parse_rules(row.after or "")) for row in edits]
    return {topic for topic in topics if any(not is_same_rule(topic, *pair) for pair in pairs)}
