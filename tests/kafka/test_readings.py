"""Readings that a person requests: topics that a pattern selects, configs of one topic."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.utils import timezone

from mirrors.models import Cluster, Flow, FlowTopic, Runner, TopicPreview
from mirrors.services.topics import readings


@pytest.mark.django_db
def test_a_worker_lists_the_topics_that_a_pattern_selects(
    primary: str, topic: Callable[..., str]
) -> None:
    name = topic()
    source = Cluster.objects.create(alias="primary", bootstrap_servers=primary)
    target = Cluster.objects.create(alias="backup", bootstrap_servers="127.0.0.1:9")
    properties = {"topics": f"{name[:-1]}[{name[-1]}], {name}-not-there"}
    preview = readings.request_preview(
        source=source, target=target, properties=properties, who="ann"
    )
    readings.run_preview(preview_id=preview.pk)
    row = TopicPreview.objects.get()
    assert (row.error, row.missing) == ("", [f"{name}-not-there"])
    # Topics with heartbeats are always replicated, and other tests leave some on this broker.
    replicated = [one for one in row.rows if one["replicated"]]
    assert row.selected == len(replicated)
    selected = {one["topic"]: one["remote_topic"] for one in replicated}
    assert selected.pop(name) == f"primary.{name}"
    assert [topic for topic in selected if not topic.endswith("heartbeats")] == []


@pytest.mark.django_db
def test_a_worker_reads_the_configs_of_both_sides(primary: str, topic: Callable[..., str]) -> None:
    name = topic(configs={"retention.ms": "1000"})
    sides = [Cluster.objects.create(alias=alias, bootstrap_servers=primary) for alias in ("a", "b")]
    runner = Runner.objects.create(name="default", master="local[1]", slots=1)
    flow = Flow.objects.create(source=sides[0], target=sides[1], runner=runner)
    row = FlowTopic.objects.create(
        flow=flow, topic=name, remote_topic=topic(), partitions=1, as_of=timezone.now()
    )
    reading = readings.request_configs(row=row, who="ann")
    readings.run_configs(reading_id=reading.pk)
    reading.refresh_from_db()
    first = reading.rows[0]
    assert (reading.error, first["key"], first["verdict"]) == ("", "retention.ms", "differs")
    assert (first["source"], first["source_set"], first["target_set"]) == ("1000", True, False)
    FlowTopic.objects.update(remote_topic="missing-topic")
    readings.request_configs(row=row, who="ann")
    readings.run_configs(reading_id=reading.pk)
    reading.refresh_from_db()
    assert "missing-topic" in reading.error
    assert {one["verdict"] for one in reading.rows} == {"unknown"}
    assert reading.rows[0]["source"] is not None
