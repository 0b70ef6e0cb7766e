"""Comparisons as runs: bounds, lost workers, and what needs no reading."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from mirrors.domain.offsets.runs import Run
from mirrors.domain.transforms import rules
from mirrors.kafka.admin.topics import Admin
from mirrors.models import Comparison
from mirrors.services.comparison import lifecycle as comparisons
from mirrors.services.comparison import worker
from tests.mirrors.comparison import compare, flow_of, record
from tests.mirrors.maps import keep_map
from tests.wire.world import Side, unique

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def sides(primary: str, backup: str) -> Iterator[tuple[Side, Side]]:
    both = Side(unique("one"), primary), Side(unique("two"), backup)
    yield both
    for side in both:
        side.close()


def test_what_it_may_not_read_any_more_is_stated(sides: tuple[Side, Side]) -> None:
    source, target = sides
    topic = unique("large")
    remote = f"{source.spec.alias}.{topic}"
    source.make(topic, 2)
    target.make(remote, 2)
    flow = flow_of(source, target, topic)
    records = [record(number, value=bytes(600)) for number in range(1000)]
    for partition in range(2):
        for side, name in ((source, topic), (target, remote)):
            side.write(name, partition, records)
            side.write(name, partition, records)
        keep_map(flow, topic, partition, [Run(0, 0, 2000)], position=2000, at_once=1)

    run = compare(flow, megabytes=1)

    assert run.verdict == "partly", run.reason
    assert "Not read:" in run.reason
    for part in run.parts.all():
        assert part.verdict in ("partly", "unread")
        assert part.unread == 2000 - (part.next or 0)
        assert "megabytes" in part.reason
    run = compare(flow, records=700)
    assert run.verdict == "same"
    assert {(part.source_first, part.source_records) for part in run.parts.all()} == {(1300, 700)}


def test_a_worker_compares_no_topics_with_a_rule_and_says_why(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    name = unique("ruled")
    flow = flow_of(source, target, f"{name}.*")
    rule = rules.TransformRule(topics=f"{name}-filtered", where="key is null")
    flow.properties[rules.TRANSFORMS] = rules.format_rules((rule,))
    flow.save()
    for topic in (f"{name}-filtered", f"{name}-plain"):
        for side, there in ((source, topic), (target, f"{source.spec.alias}.{topic}")):
            side.make(there, 1)
            side.write(there, 0, [record(number) for number in range(10)])
        keep_map(flow, topic, 0, [Run(0, 0, 10)], position=10, at_once=1)

    run = compare(flow)

    assert run.verdict == "partly", run.reason
    parts = {part.topic: (part.verdict, part.reason) for part in run.parts.all()}
    assert parts[f"{name}-plain"][0] == "same"
    verdict, reason = parts[f"{name}-filtered"]
    assert verdict == "unread"
    assert reason.startswith("Rule 1 filters or changes the records of this topic. Only the flow's")
    assert "does not run, so a worker reads the records" in reason


def test_a_lost_worker_is_followed_by_another_and_an_aborted_run_keeps_what_it_found(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    topic = unique("lost")
    source.make(topic, 1)
    target.make(f"{source.spec.alias}.{topic}", 1)
    flow = flow_of(source, target, topic)
    run = comparisons.request_comparison(flow=flow, who="tester")
    assert comparisons.claim_comparison(comparison_id=run.pk) is not None
    assert comparisons.claim_comparison(comparison_id=run.pk) is None
    assert not worker.advance_comparison(comparison_id=run.pk)
    assert comparisons.waiting_comparisons() == []
    old = timezone.now() - comparisons.LOST_AFTER - timedelta(seconds=1)
    Comparison.objects.update(seen_at=old)
    assert comparisons.waiting_comparisons() == [run.pk]
    assert not worker.advance_comparison(comparison_id=run.pk)
    run.refresh_from_db()
    assert (run.state, run.turn, run.lost) == ("succeeded", 2, 1)
    run = comparisons.request_comparison(flow=flow, who="tester")
    taken = comparisons.claim_comparison(comparison_id=run.pk)
    assert taken is not None
    comparisons.abort_comparison(run=run, who="ann")
    assert comparisons.note_progress(run=taken) == "Aborted by ann."


def test_settings_topics_and_partitions_that_differ_are_findings(
    sides: tuple[Side, Side],
) -> None:
    source, target = sides
    stem = unique("shape")
    topics = [f"{stem}.{name}" for name in ("set", "grown", "missing")]
    for topic in topics:
        source.make(topic, 2, max_message_bytes="2000000")
    target.make(f"{source.spec.alias}.{topics[0]}", 2)
    target.make(f"{source.spec.alias}.{topics[1]}", 1, max_message_bytes="2000000")
    flow = flow_of(source, target, f"{stem}.*")

    run = compare(flow, content=False)

    found = {
        (row.about, row.name.removeprefix(f"{source.spec.alias}.")) for row in run.findings.all()
    }
    assert ("config", f"{topics[0]}: max.message.bytes") in found
    assert ("partition", topics[1]) in found
    assert ("topic", topics[2]) in found
    assert run.verdict == "differs"
    assert not run.parts.exists()
    with Admin(target.spec) as admin:
        assert topics[2] not in admin.topic_names()
