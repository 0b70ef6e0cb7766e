"""Which differences between source and target are manual changes, and the new baselines.

A setting that differs is a change on the source if the target still has what the flow last set.
Otherwise it is drift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from mirrors.domain.cluster_snapshot import DYNAMIC_TOPIC, ClusterSnapshot, TopicState
from mirrors.domain.filters.topics import ConfigSelection
from mirrors.domain.topics.acls import AclRule
from mirrors.domain.topics.drift import Baseline, Deviation, DriftKey
from mirrors.domain.topics.plan import CopiedTopic
from mirrors.domain.topics.sync_plan import ConfigChange

CONFIG: str = "topic config"


def drift_key_of(change: ConfigChange) -> DriftKey:
    return CONFIG, change.remote_topic, change.key


def rule_key(rule: AclRule) -> DriftKey:
    return "acl", rule.where, rule.summary


def manual_config_changes(
    changes: Iterable[ConfigChange], target: ClusterSnapshot, baselines: Mapping[str, Baseline]
) -> list[Deviation]:
    """Return deviating configs of topics that were not recreated."""
    found = []
    for change in changes:
        base = _same_topic(change.remote_topic, target, baselines)
        if base is None or base.configs.get(change.key) == change.stands:
            continue
        found.append(
            Deviation(
                kind="topic config",
                name=change.remote_topic,
                key=change.key,
                expected=base.configs.get(change.key),
                found=change.stands,
                wanted=change.after,
            )
        )
    return found


def manual_topic_changes(
    copied: Iterable[CopiedTopic], target: ClusterSnapshot, baselines: Mapping[str, Baseline]
) -> list[Deviation]:
    """Return remote topics that were deleted, or have more partitions than the source."""
    found = []
    for row in copied:
        base, there = baselines.get(row.remote_topic), target.topics.get(row.remote_topic)
        if base is None or row.remote_topic in target.failed:
            continue
        if there is None:
            wanted = f"{row.partitions} partitions"
            found.append(
                Deviation(
                    kind="deleted topic",
                    name=row.remote_topic,
                    expected=f"{base.partitions} partitions",
                    found=None,
                    wanted=wanted,
                )
            )
        elif there.partitions > max(row.partitions, base.partitions) and _is_same(
            base, target, row
        ):
            found.append(
                Deviation(
                    kind="partitions",
                    name=row.remote_topic,
                    expected=str(base.partitions),
                    found=str(there.partitions),
                    wanted=str(row.partitions),
                )
            )
    return found


def manual_acl_changes(make: Iterable[AclRule], ours: Collection[AclRule]) -> list[Deviation]:
    """Return ACLs to create that the flow created before: somebody deleted them."""
    return [
        Deviation(
            kind="acl",
            name=rule.where,
            key=rule.summary,
            expected=rule.summary,
            found=None,
            wanted=rule.summary,
        )
        for rule in make
        if rule in ours
    ]


def next_baselines(
    copied: Iterable[CopiedTopic],
    source: ClusterSnapshot,
    target: ClusterSnapshot,
    selection: ConfigSelection,
    before: Mapping[str, Baseline],
    *,
    unsettled: Collection[DriftKey],
    failed: Collection[DriftKey],
) -> dict[str, Baseline]:
    """Return the new baseline of each remote topic.

    `unsettled`: manual changes that are tolerated. `failed`: changes that could not be made.
    """
    found: dict[str, Baseline] = {}
    touched = {name for _, name, _ in set(unsettled) - set(failed)}
    for row in copied:
        theirs, ours = source.topics.get(row.topic), target.topics.get(row.remote_topic)
        base = _same_topic(row.remote_topic, target, before)
        unread = row.topic in source.failed or row.remote_topic in target.failed
        if ours is None or theirs is None or unread:
            if (known := before.get(row.remote_topic)) is not None:
                found[row.remote_topic] = known
            continue
        if base is None and row.remote_topic in touched:
            continue  # the flow has not set it yet
        configs = {
            key: kept
            for key, value in selection.later(theirs.configs).items()
            if (kept := _kept(row.remote_topic, ours, key, value, base, unsettled, failed))
            is not None
        }
        held = base is not None and ("partitions", row.remote_topic, "") in unsettled
        count = base.partitions if base is not None and held else ours.partitions
        found[row.remote_topic] = Baseline(
            topic_id=ours.topic_id, partitions=count, configs=configs
        )
    return found


def _kept(
    name: str,
    ours: TopicState,
    key: str,
    value: str | None,
    base: Baseline | None,
    unsettled: Collection[DriftKey],
    failed: Collection[DriftKey],
) -> str | None:
    drift_key = (CONFIG, name, key)
    if base is not None and (drift_key in unsettled or drift_key in failed):
        return base.configs.get(key)
    if drift_key in failed:
        # What the target rejected stays as it is: it is not a manual change.
        entry = ours.configs.get(key)
        return entry.value if entry is not None and entry.source == DYNAMIC_TOPIC else None
    return value


def _same_topic(
    name: str, target: ClusterSnapshot, baselines: Mapping[str, Baseline]
) -> Baseline | None:
    """Return the baseline; None for a recreated topic."""
    base, there = baselines.get(name), target.topics.get(name)
    if base is None or there is None or base.topic_id != there.topic_id:
        return None
    return base


def _is_same(base: Baseline, target: ClusterSnapshot, row: CopiedTopic) -> bool:
    return base.topic_id == target.topics[row.remote_topic].topic_id
