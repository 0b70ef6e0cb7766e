"""Readings that a person requests: topics that settings would select; configs of one topic.

The web reads no cluster: a worker does, within a deadline, and stores the answer with its time.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from mirrors.domain.cluster_snapshot import ConfigEntry
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.domain.filters.topics import ConfigSelection, preview_selection
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.domain.topics.configs import compare_topic_configs
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Cluster, FlowTopic, TopicConfigs, TopicPreview
from mirrors.models.base import Reading
from mirrors.services.errors import TooMany
from mirrors.services.run_lifecycle import send_on_commit, unexpected_error_text

DEADLINE_S = 10.0
# Rows of each kind that a preview keeps.
MOST = 100
_KEPT_FOR = timedelta(hours=1)


def request_preview(
    *,
    source: Cluster,
    target: Cluster,
    properties: Mapping[str, str],
    who: str,
    typed: Mapping[str, Any] | None = None,
) -> TopicPreview:
    """Store the request and let a worker answer it. Raises InvalidSettings for settings that a
    flow cannot have, TooMany above the limit of connection tests per minute."""
    if source.pk == target.pk:
        sentence = f"A flow needs two clusters; {source.alias} is both source and target."
        raise InvalidSettings({"target": [sentence]})
    FlowSpec.build(source=source.spec, target=target.spec, properties=properties)
    now = timezone.now()
    TopicPreview.objects.filter(requested_at__lt=now - _KEPT_FOR).delete()
    check_rate(TopicPreview, who, now, "previews")
    preview = TopicPreview.objects.create(
        source=source,
        target=target,
        properties=dict(properties),
        typed=dict(typed or {}),
        requested_by=who[:150],
        requested_at=now,
    )
    send_on_commit("mirrors.tasks.preview_topics", preview.pk)
    return preview


def check_rate(model: type[Reading], who: str, now: datetime, what: str) -> None:
    """Raises TooMany if the person requested as many of these readings as a minute may have."""
    since = now - timedelta(minutes=1)
    rows = model._default_manager.filter(requested_by=who[:150], requested_at__gt=since)
    if rows.count() >= settings.UNDERSTUDY_TESTS_PER_MINUTE:
        raise TooMany(
            f"You requested {settings.UNDERSTUDY_TESTS_PER_MINUTE} {what} within a minute, which "
            "is the limit. Wait a minute and try again."
        )


def run_preview(*, preview_id: int, deadline_s: float = DEADLINE_S) -> None:
    """In a worker: read the source and store the answer, or why there is none."""
    rows = TopicPreview.objects.select_related("source", "target")
    preview = rows.filter(pk=preview_id, ended_at=None).first()
    if preview is None:
        return
    store_answer(preview, lambda: _answer(preview, deadline_s))


def store_answer(reading: Reading, read: Callable[[], dict[str, Any]]) -> None:
    """Store the answer and its time, or why there is none."""
    answer: dict[str, Any] = {}
    try:
        answer = {"error": "", **read()}
    except UnderstudyError as error:
        answer = {"error": error.message}
    except Exception as error:
        answer = {"error": unexpected_error_text(error)}
        raise
    finally:
        rows = type(reading)._default_manager.filter(pk=reading.pk)
        rows.update(ended_at=timezone.now(), **answer)


def _answer(preview: TopicPreview, deadline_s: float) -> dict[str, Any]:
    source, target = preview.source.spec, preview.target.spec
    wanted = FlowSpec.build(source=source, target=target, properties=preview.properties).settings
    with Admin(source) as admin:
        names = admin.topic_names(deadline_s=deadline_s)
    policy = policy_for(wanted, source.alias, target.alias)
    found = preview_selection(wanted, policy, names, most=MOST)
    return {
        "selected": found.selected,
        "excluded": found.excluded,
        "rows": [dataclasses.asdict(row) for row in found.rows],
        "missing": list(found.missing[:MOST]),
    }


def request_configs(*, row: FlowTopic, who: str) -> TopicConfigs:
    """Let a worker read the topic's configs on both clusters; the last answer stays until then."""
    now = timezone.now()
    check_rate(TopicConfigs, who, now, "readings of configs")
    asked = {"requested_by": who[:150], "requested_at": now, "ended_at": None, "error": ""}
    reading, _ = TopicConfigs.objects.update_or_create(
        flow=row.flow, topic=row.topic, defaults=asked
    )
    send_on_commit("mirrors.tasks.read_topic_configs", reading.pk)
    return reading


def run_configs(*, reading_id: int, deadline_s: float = DEADLINE_S) -> None:
    """In a worker. A side that cannot be read is unknown beside the other one."""
    rows = TopicConfigs.objects.select_related("flow__source", "flow__target")
    reading = rows.filter(pk=reading_id, ended_at=None).first()
    if reading is not None:
        store_answer(reading, lambda: _configs(reading, deadline_s))


def _configs(reading: TopicConfigs, deadline_s: float) -> dict[str, Any]:
    spec = reading.flow.spec
    row = FlowTopic.objects.filter(flow=reading.flow, topic=reading.topic).first()
    remote = (row.remote_topic if row else None) or policy_for(
        spec.settings, spec.source.alias, spec.target.alias
    ).remote_topic(reading.topic)
    with ThreadPoolExecutor(2) as both:
        sides = ((spec.source, reading.topic), (spec.target, remote))
        source, target = both.map(
            functools.partial(_side, deadline_s=deadline_s), *zip(*sides, strict=True)
        )
    found = compare_topic_configs(ConfigSelection(spec.settings), source[0], target[0])
    return {
        "rows": [dataclasses.asdict(row) for row in found],
        "error": " ".join(filter(None, (source[1], target[1]))),
    }


def _side(
    cluster: ClusterSpec, topic: str, *, deadline_s: float
) -> tuple[dict[str, ConfigEntry] | None, str]:
    """The configs, or None with the reason."""
    try:
        with Admin(cluster) as admin:
            found = admin.describe_configs([topic], deadline_s=deadline_s)
    except UnderstudyError as error:
        return None, error.message
    if topic in found.done:
        return found.done[topic], ""
    return None, found.failed[topic].message
