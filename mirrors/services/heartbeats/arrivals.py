"""Arrival of heartbeats on their targets, watched for a moment, with the latency of each."""

from __future__ import annotations

import time

from django.utils import timezone

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.sync.heartbeats import ReceivedHeartbeat
from mirrors.kafka.internal_topics.heartbeats import HeartbeatConsumer
from mirrors.services.clock import milliseconds
from mirrors.services.heartbeats.connections import OPEN
from mirrors.services.heartbeats.schedule import HeartbeatEmission

# Long enough for a commit, short for a worker.
WATCH_S = 2.5


def open_watchers(turns: list[HeartbeatEmission]) -> dict[int, HeartbeatConsumer]:
    """Target's key -> its watcher, which misses nothing from now on."""
    watchers = {}
    for target in {turn.flow.target_id: turn.flow.target for turn in turns}.values():
        topics = {
            topic
            for turn in turns
            if turn.flow.target_id == target.pk and (topic := turn.topic) is not None
        }
        if not topics or target.reachable is False or OPEN.is_paused(target):
            continue
        try:
            watcher = OPEN.watcher(target)
        except UnderstudyError:
            continue  # the cluster's check says why; here nothing arrives
        watcher.assign(topics)
        watchers[target.pk] = watcher
    return watchers


def await_arrivals(watchers: dict[int, HeartbeatConsumer], turns: list[HeartbeatEmission]) -> None:
    """Until all heartbeats that were just written have arrived, or the time is over."""
    waiting = [turn for turn in turns if turn.topic is not None and not turn.error]
    until = time.monotonic() + WATCH_S
    while watchers and waiting and time.monotonic() < until:
        for target in list(watchers):
            _poll(watchers, target, turns)
        waiting = [turn for turn in waiting if not turn.has_arrived()]
    for target, watcher in watchers.items():
        for turn in turns:
            if turn.flow.target_id == target and turn.topic is not None:
                turn.unread = watcher.refusals.get(turn.topic, "")
        watcher.unassign()


def _poll(
    watchers: dict[int, HeartbeatConsumer], target: int, turns: list[HeartbeatEmission]
) -> None:
    """One record of one target; a failed watcher is dropped, the others continue."""
    try:
        found = watchers[target].poll(wait_s=0.1 / len(watchers))
    except UnderstudyError as error:
        del watchers[target]
        OPEN.drop_watcher(target)
        for turn in turns:
            if turn.flow.target_id == target:
                turn.unread = error.message
        return
    if found is not None:
        topic, key, value = found
        _note(turns, target, topic, ReceivedHeartbeat(key, value, milliseconds(timezone.now())))


def _note(
    turns: list[HeartbeatEmission], target: int, topic: str, arrival: ReceivedHeartbeat
) -> None:
    """A source writes for all its targets, so an arrival on another target does not count."""
    for turn in turns:
        if turn.flow.target_id == target and turn.topic == topic:
            turn.arrivals.append(arrival)
