"""Which settings of remote topics differ from the source's, by MM2's rule.

MM2 rewrites every setting each time; changing only the differences has the same effect.
"""

from __future__ import annotations

from mirrors.domain.cluster_snapshot import DYNAMIC_TOPIC, ClusterSnapshot, TopicState
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.specs import FlowSpec
from mirrors.domain.topics.plan import CopiedTopic
from mirrors.domain.topics.sync_plan import ConfigChange


def plan_configs(
    source: ClusterSnapshot,
    target: ClusterSnapshot,
    spec: FlowSpec,
    copied: tuple[CopiedTopic, ...],
) -> tuple[tuple[ConfigChange, ...], tuple[str, ...]]:
    """Return changes to existing remote topics, and why a setting or a topic is left out."""
    selection = ConfigSelection(spec.settings)
    changes: list[ConfigChange] = []
    left: list[str] = []
    for row in copied:
        theirs, ours = source.topics.get(row.topic), target.topics.get(row.remote_topic)
        if theirs is None or ours is None:
            continue
        unread = source.failed.get(row.topic) or target.failed.get(row.remote_topic)
        if unread is not None:
            left.append(f"The configs of {row.topic} cannot be compared. {unread}")
            continue
        for key, value in selection.later(theirs.configs).items():
            _compare(row, ours, key, value, changes, left)
    return tuple(changes), tuple(left)


def _compare(
    row: CopiedTopic,
    ours: TopicState,
    key: str,
    value: str | None,
    changes: list[ConfigChange],
    left: list[str],
) -> None:
    entry = ours.configs.get(key)
    if entry is None:
        if value is not None:
            left.append(
                f"{key} of {row.topic} is not synchronized: the target's Kafka version does not "
                "know it."
            )
        return
    explicit = entry.source == DYNAMIC_TOPIC
    if (entry.value == value and explicit) if value is not None else not explicit:
        return
    if entry.read_only or entry.sensitive:
        left.append(f"{key} of {row.remote_topic} cannot be changed on the target.")
        return
    changes.append(
        ConfigChange(
            topic=row.topic,
            remote_topic=row.remote_topic,
            key=key,
            before=entry.value if explicit else f"{entry.value} (default)",
            after=value,
            stands=entry.value if explicit else None,
        )
    )
