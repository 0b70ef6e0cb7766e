"""Topics that the principal may not describe: Kafka omits them from its list without an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from mirrors.domain.cluster_snapshot import ClusterSnapshot
from mirrors.domain.filters.topics import TopicSelection, example_name, literal_names
from mirrors.domain.replication_policy import ReplicationPolicy
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.acls import grant_command, with_grant
from mirrors.kafka.admin.topics import Admin

_MAX_NAMES = 3


def with_hidden(
    source: Admin, seen: ClusterSnapshot, copied: Iterable[str], *, deadline_s: float
) -> ClusterSnapshot:
    """The snapshot with topics of `copied` that are not listed but may exist: each is in
    `failed`."""
    unlisted = {name for name in copied if name not in seen.topics and name not in seen.failed}
    if not unlisted:
        return seen
    found = {
        name: with_grant(error.message, error, source.spec, "Describe", name)
        for name, error in source.undescribed(unlisted, deadline_s=deadline_s).items()
    }
    return dataclasses.replace(seen, failed={**seen.failed, **found})


def not_visible(
    source: Admin,
    seen: ClusterSnapshot,
    spec: FlowSpec,
    policy: ReplicationPolicy,
    *,
    deadline_s: float,
) -> str:
    """The missing permission, if the flow selects topics that are not listed. Empty if none is
    missing or the cluster has no authorizer."""
    selection = TopicSelection(spec.settings, policy)
    listed = seen.topics.keys() | seen.failed.keys()
    named = [
        name
        for name in literal_names(spec.settings.topics, listed)
        if selection.decide(name).replicated
    ]
    if hidden := _refused(source, named, deadline_s):
        return _named_topics(source, hidden)
    # Heartbeats topics of this program prove nothing about other topics.
    others = (name for name in listed if not policy.is_own_heartbeats_topic(name))
    if any(selection.decide(name).replicated for name in others):
        return ""
    probe = example_name(spec.settings)
    if probe is None or probe in listed or not _refused(source, [probe], deadline_s):
        return ""
    none = "No topic" if not listed else "No topic that the flow selects"
    return (
        f"{none} of {source.spec.alias} is visible: Kafka lists only topics that the principal may "
        "describe, and it lacks DESCRIBE there. Grant it on the topics to be replicated: "
        f"{grant_command(source.spec, 'Describe', topic='<topic>')}"
    )


def _refused(source: Admin, names: list[str], deadline_s: float) -> list[str]:
    """Names that the principal may not describe, whether the topics exist or not."""
    if not names:
        return []
    found = source.undescribed(names, deadline_s=deadline_s)
    return sorted(name for name, error in found.items() if error.code == "not_authorised")


def _named_topics(source: Admin, hidden: list[str]) -> str:
    shown = ", ".join(hidden[:_MAX_NAMES])
    more = f" and {len(hidden) - _MAX_NAMES} more" if len(hidden) > _MAX_NAMES else ""
    return (
        f"{shown}{more}, named in topics, cannot be described on {source.spec.alias}: the "
        "principal lacks DESCRIBE, and without it Kafka does not say whether a topic exists. "
        f"Grant it: {grant_command(source.spec, 'Describe', topic=hidden[0])}"
    )
