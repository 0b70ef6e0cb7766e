"""Offsets named in `start.from` and `run.until`, checked against the flow and the source.

An offset that the source lacks is rejected, never moved to the nearest one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.settings.flow_control import START, UNTIL
from mirrors.domain.settings.run_bounds import named_offsets, shown_partition
from mirrors.domain.specs import FlowSettings, FlowSpec
from mirrors.domain.topics.plan import TopicPlan


def offsets_by_setting(settings: FlowSettings) -> dict[str, dict[TopicPartition, int]]:
    """Return the offsets that each setting names."""
    return {START: settings.start_offsets, UNTIL: settings.run_until_offsets}


def without_offsets(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for a flow from another source, where these offsets mean nothing."""
    return {
        key: text
        for key, text in properties.items()
        if key not in (START, UNTIL) or named_offsets(text.strip()) is None
    }


def without_offsets_of(properties: Mapping[str, str], topics: Collection[str]) -> dict[str, str]:
    """Return the settings without the offsets of these topics, which the flow excludes from now on.

    The last offsets of `run.until` stay: without them the flow would replicate without an end.
    """
    found = dict(properties)
    for key in (START, UNTIL):
        named = named_offsets(properties.get(key, "").strip())
        if not named:
            continue
        left = [
            f"{shown_partition(tp)}:{offset}" for tp, offset in named.items() if tp[0] not in topics
        ]
        if left:
            found[key] = ",".join(left)
        elif key == START:
            del found[key]
    return found


def check_named(spec: FlowSpec) -> None:
    """Raise InvalidSettings for a topic that the flow's filters exclude."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    errors: dict[str, list[str]] = {}
    for key, named in offsets_by_setting(spec.settings).items():
        for topic in dict.fromkeys(topic for topic, _ in named):
            verdict = selection.decide(topic)
            if not verdict.replicated:
                sentence = (
                    f"{key} names {topic}, which the flow does not replicate: {verdict.reason}."
                )
                errors.setdefault(key, []).append(sentence)
    if errors:
        raise InvalidSettings(errors)


def why_missing(
    tp: TopicPartition, source: ClusterSnapshot, topics: TopicPlan, alias: str
) -> str | None:
    """Return why the partition cannot be copied from or up to an offset; None if it can."""
    topic, partition = tp
    state = source.topics.get(topic)
    if state is None:
        return source.failed.get(topic) or f"{alias} has no topic {topic}"
    if partition >= state.partitions:
        return f"the last partition of {topic} on {alias} is {state.partitions - 1}"
    for skipped in topics.skipped:
        if skipped.topic == topic:
            return f"{topic} is not replicated: {skipped.reason}"
    return None


def why_out_of_range(offset: int, first: int, end: int, alias: str) -> str | None:
    """Return why a partition cannot be copied from or up to the offset; None if it can."""
    if offset < first:
        return f"its log on {alias} starts at offset {first}"
    if offset > end:
        return f"its log on {alias} ends at offset {end}"
    return None


def refusal(key: str, tp: TopicPartition, offset: int, why: str) -> str:
    where = f"{shown_partition(tp)}:{offset}"
    return (
        f"{key} names {where}, but {why.rstrip('.')}. Nothing is replicated until the setting is "
        "changed."
    )
