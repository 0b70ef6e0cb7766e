"""From which offset a changed rule applies: known when every slice copies with it."""

from __future__ import annotations

import dataclasses

import pytest
from django.utils import timezone

from mirrors.domain.runners.job_files import JobStatus, PartitionStatus, SliceStatus
from mirrors.domain.transforms.rules import TRANSFORMS, TransformRule, format_rules
from mirrors.models import Flow, RuleStart, SettingChange
from mirrors.services.flows.rule_starts import note_rule_starts, why_rules_unknown
from tests.pages import world

pytestmark = pytest.mark.django_db


def partition(topic: str, position: int | None) -> PartitionStatus:
    return PartitionStatus(
        topic=topic,
        partition=0,
        remote_topic=f"a.{topic}",
        state="in_sync",
        reason="",
        position=position,
        source_end=None,
        source_stable_end=None,
        time_lag_ms=None,
        lane="raw",
        as_of=1,
    )


def status(generation: int, *, slices: int, position: int) -> JobStatus:
    row = SliceStatus(
        index=0, state="running", reason="", epoch=1, partitions=2, records=0, bytes=0,
        records_per_second=0, bytes_per_second=0, pid=1, as_of=1, generation=slices,
    )  # fmt: skip
    return JobStatus(
        job=1, flow=1, generation=generation, state="running", reason="", started_at=1, as_of=1,
        partitions=(partition("orders", position), partition("other", position)), slices=(row,),
    )  # fmt: skip


def test_a_changed_rule_has_the_position_of_the_first_report_of_all_slices() -> None:
    flow = world.flow(properties={"topics": ".*"})
    rule = TransformRule(topics="orders", where="value is not null")
    flow.properties[TRANSFORMS] = format_rules([rule])
    flow.generation, flow.rules_known = 3, 2
    flow.save()
    SettingChange.objects.create(
        flow=flow, generation=3, who="ann", key=TRANSFORMS, before=None, after=format_rules([rule])
    )
    now = timezone.now()
    assert why_rules_unknown(flow, "orders").startswith("Rule 1 was changed")
    assert why_rules_unknown(flow, "other") == ""

    note_rule_starts(flow=flow, status=status(3, slices=2, position=50), as_of=now)
    assert not RuleStart.objects.exists()
    starting = status(3, slices=3, position=60)
    first = dataclasses.replace(starting.slices[0], state="starting")
    note_rule_starts(flow=flow, status=dataclasses.replace(starting, slices=(first,)), as_of=now)
    assert not RuleStart.objects.exists()
    note_rule_starts(flow=flow, status=status(3, slices=3, position=70), as_of=now)

    flow = Flow.objects.get()
    assert [(row.topic, row.offset) for row in RuleStart.objects.all()] == [("orders", 70)]
    assert why_rules_unknown(flow, "orders") == ""
    # Later reports move nothing.
    note_rule_starts(flow=flow, status=status(3, slices=3, position=90), as_of=now)
    assert RuleStart.objects.get().offset == 70
