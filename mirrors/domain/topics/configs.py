"""Which configs of remote topics differ from the source's, by MM2's rule.

MM2 rewrites every setting each time; changing only the differences has the same effect.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from mirrors.domain.cluster_snapshot import DYNAMIC_TOPIC, ClusterSnapshot, ConfigEntry, TopicState
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
    if _is_synchronized(entry, value):
        return
    if entry.read_only or entry.sensitive:
        left.append(f"{key} of {row.remote_topic} cannot be changed on the target.")
        return
    changes.append(
        ConfigChange(
            topic=row.topic,
            remote_topic=row.remote_topic,
            key=key,
            before=entry.value if _is_set(entry) else f"{entry.value} (default)",
            after=value,
            stands=entry.value if _is_set(entry) else None,
        )
    )


def _is_synchronized(entry: ConfigEntry, value: str | None) -> bool:
    """Whether the remote topic has the value that it should; None is the target's default."""
    return entry.value == value and _is_set(entry) if value is not None else not _is_set(entry)


Verdict = Literal["differs", "excluded", "unknown", "same"]
_ORDER: tuple[Verdict, ...] = ("differs", "unknown", "excluded", "same")
_HIDDEN = "hidden"


@dataclasses.dataclass(frozen=True)
class ConfigRow:
    """One config of a topic and of its remote topic, side by side.

    - `source`, `target`: the values; None if that side does not have it, or could not be read.
    - `source_set`, `target_set`: whether the topic sets it; otherwise it is the cluster's default.
    - `verdict`: differs, though the flow synchronizes it; excluded: differs, and the flow leaves
      it; unknown: one side could not be read; same.
    """

    key: str
    source: str | None
    target: str | None
    source_set: bool
    target_set: bool
    verdict: Verdict
    reason: str


def compare_topic_configs(
    selection: ConfigSelection,
    source: Mapping[str, ConfigEntry] | None,
    target: Mapping[str, ConfigEntry] | None,
) -> list[ConfigRow]:
    """Each config, differences first. A side that could not be read is None."""
    carried = selection.later(dict(source or {}))
    keys = {*(source or {}), *(target or {})}
    rows = [_row(key, selection, carried, source, target) for key in keys]
    return sorted(rows, key=lambda row: (_ORDER.index(row.verdict), not row.source_set, row.key))


def _row(
    key: str,
    selection: ConfigSelection,
    carried: Mapping[str, str | None],
    source: Mapping[str, ConfigEntry] | None,
    target: Mapping[str, ConfigEntry] | None,
) -> ConfigRow:
    theirs, ours = (source or {}).get(key), (target or {}).get(key)
    verdict: Verdict = "same"
    reason = ""
    if source is None or target is None:
        verdict = "unknown"
        reason = f"The {'source' if source is None else 'target'} could not be read."
    elif theirs is None or ours is None:
        verdict = "excluded"
        reason = f"The Kafka version of the {'source' if theirs is None else 'target'} lacks it."
    elif theirs.sensitive or ours.sensitive:
        verdict, reason = "unknown", "Kafka does not show its value."
    elif key in carried and not _is_synchronized(ours, carried[key]) and not ours.read_only:
        verdict, reason = "differs", "The sync task topic configs sets it at its next run."
    elif theirs.value != ours.value:
        verdict, reason = "excluded", _why_left(key, selection, theirs)
    return ConfigRow(
        key,
        _value(theirs),
        _value(ours),
        theirs is not None and _is_set(theirs),
        ours is not None and _is_set(ours),
        verdict,
        reason,
    )


def _why_left(key: str, selection: ConfigSelection, theirs: ConfigEntry) -> str:
    if not selection.keeps(key):
        return "config.properties.exclude names it."
    if _is_set(theirs):
        return "It cannot be changed on the target."
    return "The clusters have different defaults, and neither topic sets it."


def _is_set(entry: ConfigEntry) -> bool:
    return entry.source == DYNAMIC_TOPIC


def _value(entry: ConfigEntry | None) -> str | None:
    if entry is None:
        return None
    return _HIDDEN if entry.value is None and entry.sensitive else entry.value
