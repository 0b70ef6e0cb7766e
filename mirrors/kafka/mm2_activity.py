"""Detects another program that writes a flow's remote topics: moving ends, MM2's group."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable

from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.migration.start_check import TargetActivity
from mirrors.domain.migration.takeover import internal_topics
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.domain.sync.heartbeats import TOPIC
from mirrors.kafka.admin.groups import list_groups
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import read_to_end

DEADLINE_S = 7.0
POLL_S = 0.5
# A writer of a quiet source writes in bursts: after a recent record, the look takes longer.
WATCH_S, WATCH_RECENT_S = 4.0, 10.0
RECENT_MS = 60_000
# Heartbeats come once a second.
FRESH_MS = 15_000
SOURCE_CONNECTOR = "MirrorSourceConnector"


def end_offsets(admin: Admin, names: Iterable[str]) -> dict[TopicPartition, int]:
    """End offsets of all partitions of these topics, without missing topics."""
    state = admin.snapshot(sorted(names), now=0, deadline_s=DEADLINE_S, with_configs=False)
    partitions = [
        (name, part) for name, topic in state.topics.items() for part in range(topic.partitions)
    ]
    if not partitions:
        return {}
    return dict(admin.list_offsets(partitions, "latest", deadline_s=DEADLINE_S).raise_first().done)


def group_state(spec: FlowSpec) -> tuple[str, str]:
    """The name of MM2's Connect group for this flow, and its state; empty if it does not exist."""
    name = f"{spec.source.alias}-mm2"
    listing = list_groups(spec.target, deadline_s=DEADLINE_S).get(name)
    return name, "" if listing is None else listing.state


def detect_target_activity(
    spec: FlowSpec,
    source: ClusterSnapshot,
    target: Admin,
    *,
    is_planned: bool,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> TargetActivity:
    """Find reasons against a first start. Returns early when one is found, or none is possible.

    `is_planned`: the positions topic shows an earlier plan of this flow. Then only growth of that
    topic counts, since this flow may have written the records of the remote topics.
    """
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    positions, internal = policy.positions_topic(), frozenset(internal_topics(policy))
    watched = {positions}
    if not is_planned:
        watched |= internal
        if not spec.settings.skip_replicated:
            watched |= {policy.remote_topic(name) for name in selected_topics(spec, source)}
    name, state = ("", "") if is_planned else group_state(spec)
    beats = not is_planned and _has_recent_heartbeats(target, spec, int(now() * 1000))
    copies = not (state or beats) or _is_connector_enabled(target, spec.source.alias)
    before = {at: end for at, end in end_offsets(target, watched).items() if end}

    def signs(after: dict[TopicPartition, int], seconds: float) -> TargetActivity:
        return TargetActivity(
            source=spec.source.alias,
            target=spec.target.alias,
            seconds=seconds,
            group_name=name,
            group=state,
            copies=copies,
            beats=beats,
            before=before,
            after=after,
            internal=internal,
            positions=positions,
        )

    found, waited = signs(before, 0.0), 0.0
    until = _watch_seconds(target, before, int(now() * 1000)) if before else 0.0
    while not found.code and waited < until:
        sleep(POLL_S)
        waited += POLL_S
        found = signs(end_offsets(target, watched), waited)
    return found


def _has_recent_heartbeats(target: Admin, spec: FlowSpec, now_ms: int) -> bool:
    """Whether heartbeats of this pair have arrived for a while, and still do.

    Understudy writes them on the source, or on the target if the source denied a running flow. In a
    shorter time they may be those of this flow.
    """
    try:
        rows = read_to_end(target, TOPIC, since=now_ms - RECENT_MS, deadline_s=DEADLINE_S)
    except UnderstudyError:
        return False
    times = []
    for row in rows:
        try:
            beat = Heartbeat.read(row.key, row.value)
        except MalformedRecord:
            continue
        if (beat.source, beat.target) == (spec.source.alias, spec.target.alias):
            times.append(row.timestamp)
    if not times:
        return False
    return max(times) > now_ms - FRESH_MS and max(times) - min(times) > FRESH_MS


def selected_topics(spec: FlowSpec, source: ClusterSnapshot) -> list[str]:
    """The source topics that the flow's filters select."""
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    selection = TopicSelection(spec.settings, policy)
    return [name for name in source.topics if selection.decide(name).replicated]


def _watch_seconds(target: Admin, ends: dict[TopicPartition, int], now_ms: int) -> float:
    """How long to watch: longer if a record is newer than a minute."""
    since = target.list_offsets(ends, now_ms - RECENT_MS, deadline_s=DEADLINE_S).done
    is_recent = any(since.get(tp, end) < end for tp, end in ends.items())
    return WATCH_RECENT_S if is_recent else WATCH_S


def _is_connector_enabled(target: Admin, source: str) -> bool:
    """False only if MM2's own settings disable the pair's source connector.

    An MM2 worker runs for every pair of clusters, including pairs with heartbeats only.
    """
    try:
        rows = read_to_end(target, f"mm2-configs.{source}.internal", deadline_s=DEADLINE_S)
    except UnderstudyError:
        return True
    enabled: dict[bytes, bool] = {}
    for row in rows:
        if row.key is None or not row.key.startswith(b"connector-"):
            continue
        try:
            settings = json.loads(row.value or b"null")["properties"]
            is_copier = str(settings.get("connector.class", "")).endswith(SOURCE_CONNECTOR)
            is_on = str(settings.get("enabled", "true")).strip().lower() != "false"
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if is_copier:
            enabled[row.key] = is_on
    return not enabled or any(enabled.values())
