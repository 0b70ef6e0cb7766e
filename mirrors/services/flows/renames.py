"""Checks the topics of a flow: `topic.rename` against known ones, and what its clusters allow."""

from __future__ import annotations

from django.core.exceptions import PermissionDenied

from mirrors.domain.access.grants import Subject
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.flows.topic_bounds import beyond_labels
from mirrors.domain.flows.written_names import check_collisions
from mirrors.domain.patterns.renames import RENAME, RenameRule, exact_rules, format_renames
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.models import Flow, FlowPartition, FlowTopic, PartitionMap
from mirrors.models.access.grants import demand_here

_SHOWN = 5
# Settings that decide which topics have which names.
_NAMING = ("topic_rename", "topics", "topics_exclude", "replication_policy_class")


def check_renamed_topics(spec: FlowSpec, flow: Flow | None) -> None:
    """Raise InvalidSettings for a changed name of a replicated topic, and for topics of one name.

    `flow`: as it is stored; None for a new one.
    """
    before = None if flow is None else _stored(flow)
    if flow is not None and before is not None:
        if before.settings.topic_rename != spec.settings.topic_rename:
            _check_kept_names(flow, before, spec)
        if all(getattr(before.settings, k) == getattr(spec.settings, k) for k in _NAMING):
            # A topic that was created later must not prevent other changes: it says why it waits.
            return
    if not spec.settings.topic_rename:
        return
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    known = FlowTopic.objects.filter(flow__source__alias=spec.source.alias, partitions__gt=0)
    names = set(known.values_list("topic", flat=True))
    check_collisions(policy, (name for name in names if selection.decide(name).replicated))


def check_label_topics(spec: FlowSpec, flow: Flow | None) -> None:
    """Raise InvalidSettings if this person may not let the flow reach further topics.

    Who may add a flow between the clusters may edit it without bounds; so may commands and workers.
    A new flow needs that right anyway. `flow`: as it is stored.
    """
    if flow is None:
        return
    labels = set(flow.labels.values_list("name", flat=True))
    beyond = beyond_labels(_stored(flow), spec, labels)
    if beyond is None:
        return
    pair = Subject(name=flow.name, clusters=(flow.source_id, flow.target_id))
    try:
        demand_here(pair, Right.EDIT)
    except PermissionDenied:
        key = "topics" if beyond.does == "select" else "topic.rename"
        raise InvalidSettings({key: [beyond.sentence(labels)]}) from None


def _stored(flow: Flow) -> FlowSpec | None:
    """The spec of the stored settings; None if they are invalid."""
    try:
        return flow.spec
    except InvalidSettings:
        return None


def _check_kept_names(flow: Flow, before: FlowSpec, after: FlowSpec) -> None:
    """A position and an offset map belong to the remote topic.

    Under another name a topic would start again at its first record, and no group's offset would
    follow.
    """
    old, new = (
        policy_for(spec.settings, spec.source.alias, spec.target.alias) for spec in (before, after)
    )
    topics = replicated_topics(flow)
    kept = {name: remote for name in topics if (remote := old.remote_topic(name))}
    moved = {name: remote for name, remote in kept.items() if new.remote_topic(name) != remote}
    if not moved:
        return
    shown = sorted(moved)[:_SHOWN]
    said = ", ".join(f"{name} from {moved[name]} to {new.remote_topic(name)}" for name in shown)
    more = f" and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
    rules: list[RenameRule] = exact_rules({name: moved[name] for name in shown})
    raise InvalidSettings(
        {
            RENAME: [
                f"It would rename topics that {flow.name} replicates: {said}{more}. Their "
                "positions and offset maps belong to the present names, so they would start again, "
                f"and groups would have no offsets. To keep the names, begin {RENAME} with: "
                f"{format_renames(rules)}."
            ]
        }
    )


def replicated_topics(flow: Flow) -> set[str]:
    """Source topics that have a position."""
    found = PartitionMap.objects.filter(flow=flow, position__isnull=False)
    seen = FlowPartition.objects.filter(flow=flow, position__isnull=False)
    return {
        *found.values_list("topic", flat=True).distinct(),
        *seen.values_list("topic", flat=True).distinct(),
    }
