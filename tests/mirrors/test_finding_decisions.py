"""Decisions on findings: one transaction, checked against what the person saw, kept in the log."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.models import Drift, Flow, Gap, OrphanStretch, Transition
from mirrors.services import findings, run_lifecycle
from mirrors.services.errors import Conflict
from mirrors.services.failback import orphans
from mirrors.services.failover import left_behind
from mirrors.services.findings import Choice
from mirrors.services.gaps import lost_ranges
from mirrors.services.topics import drift
from tests.failback_rows import going_back
from tests.pages import world

pytestmark = pytest.mark.django_db

Sent = list[tuple[str, tuple[Any, ...]]]
Committed = Callable[..., Any]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """Messages, which no queue receives here."""
    messages: Sent = []

    def signature(task: str, args: tuple[Any, ...]) -> Any:
        return SimpleNamespace(delay=lambda: messages.append((task, args)))

    monkeypatch.setattr(run_lifecycle, "current_app", SimpleNamespace(signature=signature))
    return messages


@pytest.fixture
def flow() -> Flow:
    return world.flow()


def a_gap(flow: Flow, **facts: Any) -> Gap:
    now = timezone.now()
    known = GapFacts(kind="deleted", position=4, first=9, end=20)
    row = {"kind": "deleted", "facts": dataclasses.asdict(known), "opened_at": now, "seen_at": now}
    return Gap.objects.create(flow=flow, topic="orders", partition=0, **(row | facts))


def a_drift(flow: Flow) -> Drift:
    now = timezone.now()
    return Drift.objects.create(
        flow=flow, kind="topic config", name="orders", key="retention.ms", place="a",
        expected="1", found="2", wanted="1", opened_at=now, seen_at=now,
    )  # fmt: skip


def notes_of(flow: Flow) -> list[tuple[str, str]]:
    rows = Transition.objects.filter(subject="flow", subject_id=flow.pk, field="settings")
    return list(rows.order_by("pk").values_list("who", "to_state"))


def test_each_kind_stores_who_decided_and_sends_its_worker_once(
    flow: Flow, sent: Sent, django_capture_on_commit_callbacks: Committed
) -> None:
    gap, found, run = a_gap(flow), a_drift(flow), going_back(flow)
    said: dict[str, Any] = {"who": "ann", "why": "So.", "now": timezone.now()}
    with django_capture_on_commit_callbacks(execute=True):
        gap = lost_ranges.decide(gap=gap, choice="accept", shown="", **said)
        found = drift.decide(finding=found, choice="fix", **said)
        assert orphans.decide(run=run, decision="drop", partitions=None, **said) == 1
    orphan = OrphanStretch.objects.exclude(decision="").get()
    assert [row.state for row in (gap, found, orphan)] == ["accepted", "fixing", "decided"]
    for row in (gap, found, orphan):
        assert (row.decided_by, row.decided_why, row.decided_at) == ("ann", "So.", said["now"])
    assert notes_of(flow) == [
        ("ann", "gap: accept"), ("ann", "drift: fix"), ("ann", "orphans: drop"),
    ]  # fmt: skip
    assert sent == [
        ("mirrors.tasks.reconcile_flow", (flow.pk,)),
        ("mirrors.tasks.fix_drift", (flow.pk,)),
        ("mirrors.tasks.settle_orphans", (run.pk,)),
    ]
    flow.refresh_from_db()
    assert flow.generation == Flow._meta.get_field("generation").default + 1


def test_a_decision_that_changes_no_state_is_recorded_too(flow: Flow, sent: Sent) -> None:
    before = flow.generation
    gap = lost_ranges.decide(
        gap=a_gap(flow), choice="stop", who="ann", why="Wait.", shown="", now=timezone.now()
    )
    assert (gap.state, gap.decided_by) == ("open", "ann")
    assert notes_of(flow) == [("ann", "gap: stop")]
    flow.refresh_from_db()
    assert flow.generation == before


@pytest.mark.parametrize("shown", ["other", "none"])
def test_facts_that_changed_since_they_were_shown_are_refused(
    flow: Flow, sent: Sent, shown: str
) -> None:
    said: dict[str, Any] = {"who": "ann", "why": "So.", "now": timezone.now(), "shown": shown}
    with pytest.raises(Conflict) as refused:
        lost_ranges.decide(gap=a_gap(flow), choice="accept", **said)
    assert refused.value.code == "stale"
    with pytest.raises(Conflict) as refused:
        drift.decide(finding=a_drift(flow), choice="accept", **said)
    assert refused.value.code == "stale"
    assert notes_of(flow) == []


def test_of_several_findings_one_refusal_stores_none(flow: Flow) -> None:
    run = going_back(flow)
    rows = list(run.orphans.order_by("pk"))

    def check(row: OrphanStretch) -> None:
        if row.pk == rows[1].pk:
            raise Conflict("Not this one.")

    with pytest.raises(Conflict):
        findings.decide(
            rows,
            Choice(name="drop", who="ann", why="So.", now=timezone.now()),
            flow_id=flow.pk,
            kind="orphans",
            state="decided",
            check=check,
            reason=lambda _: "So.",
            summary=lambda _: "So.",
            decision="drop",
        )
    assert {row.state for row in run.orphans.all()} == {"listed"}
    assert notes_of(flow) == []


def test_a_second_decision_on_a_gap_or_on_a_topic_left_behind_is_refused(
    flow: Flow, sent: Sent
) -> None:
    gap, now = a_gap(flow), timezone.now()
    said: dict[str, Any] = {"who": "ann", "why": "So.", "shown": "", "now": now}
    lost_ranges.decide(gap=gap, choice="accept", **said)
    with pytest.raises(Conflict, match="no decision is needed"):
        lost_ranges.decide(gap=gap, choice="restart", **said)
    topic: dict[str, Any] = {"flow": flow, "topic": "orders", "partition": None, "reason": "Old."}
    left_behind.decide(**topic, who="ann", now=now)
    with pytest.raises(Conflict, match="already left behind"):
        left_behind.decide(**topic, who="ben", now=now)
    assert [what for _, what in notes_of(flow)] == ["gap: accept", "left behind"]
