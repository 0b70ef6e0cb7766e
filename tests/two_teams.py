"""Two teams with equal flows: what a person with grants on the first may see of the second.

The second flow is a copy of every row of the first, with keys and names of its own. Each of its
texts contains HIDDEN, so a page that shows any of them is found.
"""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import models
from django.utils import timezone

from mirrors.models import (
    ClusterTest,
    Comparison,
    FailoverRun,
    Flow,
    FlowLabel,
    FlowMove,
    GroupOffset,
    GroupSummary,
    LeftBehind,
    RuleWaiver,
    Runner,
    RunnerLog,
    TopicPreview,
    Transition,
)
from mirrors.models.access.grants import Owned
from monitoring.models import Alert, AlertRule, Channel, Delivery, Silence
from tests.drill_runs import drill_rows
from tests.failback_rows import going_back
from tests.pages import world

HIDDEN = "hidden7"
FAR = 5_000
LABEL = "team-a"
_WORDS = ("primary", "backup", "orders", "default", "tester", "ann", "app", "on-call", LABEL)


def first_team() -> Flow:
    """A flow with rows of every kind; each has the flow's own number, where it has an address."""
    flow = world.busy()
    now, pk = timezone.now(), flow.pk
    ended = {"state": "aborted", "ended_at": now, "mark": "m", "requested_by": "tester"}
    FailoverRun.objects.create(pk=pk, flow=flow, kind="simulation", **ended)
    asked = {"seconds": 60, "megabytes": 60, "requested_by": "tester"}
    Comparison.objects.create(pk=pk, flow=flow, summary={"aspects": []}, **asked)
    world.gap(flow, pk=pk)
    world.conflict_report(flow, pk=pk)
    GroupOffset.objects.create(flow=flow, group="app", topic="orders", partition=0, as_of=now)
    going_back(flow)
    drill_rows(flow)
    if not flow.jobs.filter(pk=pk).exists():
        world.job(flow, pk=pk, state="stopped", ended_at=now)
    AlertRule.objects.all().delete()
    rule = AlertRule.objects.create(pk=pk, name="rule of orders", kind="gap", flow=flow)
    facts = {"rule": rule, "rule_name": rule.name, "subject": f"flow:{pk}", "flow": flow}
    alert = Alert.objects.create(
        pk=pk, subject_name=flow.name, severity="critical", state="firing", fired_at=now, **facts
    )
    channel = Channel.objects.create(
        pk=pk, name="on-call", kind="webhook", target="https://x.example/"
    )
    Delivery.objects.create(pk=pk, alert=alert, channel=channel, what="firing", state="dead")
    later = now + timedelta(hours=1)
    Silence.objects.create(pk=pk, flow=flow, ends_at=later, who="tester", reason="orders move")
    ClusterTest.objects.create(pk=pk, cluster=flow.source, requested_by="tester")
    preview = {"typed": {}, "requested_by": "tester", "requested_at": now}
    TopicPreview.objects.create(pk=pk, source=flow.source, target=flow.target, **preview)
    RuleWaiver.objects.create(pk=pk, flow=flow, requested_by="tester", why="orders wait")
    LeftBehind.objects.create(
        pk=pk, flow=flow, topic="orders", reason="old orders", decided_by="tester", decided_at=now
    )
    Runner.objects.update(pool="shared")
    moved = {"before": "default", "to": "other", "reason": "orders move", "requested_by": "tester"}
    FlowMove.objects.create(
        pk=pk, flow=flow, pool="shared", requested_at=now, ended_at=now, **moved
    )
    RunnerLog.objects.create(runner=flow.runner, lines=["default runs"], mark="m", written_at=now)
    FlowLabel.objects.create(flow=flow, name=LABEL)
    return flow


def second_team(first: Flow, *, shares: bool = False) -> Flow:
    """A copy of all rows, with keys FAR away; only the channel is shared.

    `shares`: also the source cluster and the runner, as most teams do.
    """
    copied: dict[tuple[type[models.Model], Any], Any] = {}
    if shares:
        for row in (first.source, first.runner):
            copied[type(row), row.pk] = row
    # The program makes the summary of a group when the rows of its partitions are stored.
    apart = (Transition, GroupSummary, *((RunnerLog,) if shares else ()))
    kinds = [
        model for model in apps.get_models() if issubclass(model, Owned) and model not in apart
    ]
    waiting = [
        row
        for model in kinds
        for row in model.objects.all()
        if (model, row.pk) not in copied and not (shares and isinstance(row, ClusterTest))
    ]
    while waiting:
        left = [row for row in waiting if not _copy(row, copied, waiting)]
        assert len(left) < len(waiting), {type(row) for row in left}
        waiting = left
    shared = {key: row for key, row in copied.items() if row.pk == key[1]}
    _copy_transitions({key: row for key, row in copied.items() if key not in shared})
    found: Flow = copied[Flow, first.pk]
    return found


def _copy(row: Any, copied: dict[Any, Any], waiting: list[Any]) -> bool:
    """Copy one row whose owners are copied already."""
    facts: dict[str, Any] = {}
    for field in row._meta.concrete_fields:
        value = getattr(row, field.attname)
        related = field.related_model
        if related is not None and value is not None and issubclass(related, Owned):
            if (related, value) not in copied:
                return False
            value = copied[related, value].pk
        elif field.primary_key:
            value = value + FAR
        elif field.name == "number" and isinstance(field, models.CharField):
            value += "77"
        elif isinstance(field, models.UUIDField):
            value = uuid.uuid4()
        elif isinstance(field, models.JSONField | models.CharField | models.TextField):
            value = _renamed(value, is_choice=bool(field.choices))
        facts[field.attname] = value
    kind = type(row)
    copied[kind, row.pk] = kind._base_manager.create(**facts)
    return True


def _renamed(value: Any, *, is_choice: bool) -> Any:
    if is_choice or not value:
        return value
    text = json.dumps(value)
    for word in _WORDS:
        text = text.replace(word, f"{HIDDEN}{word[0]}")
    return json.loads(text)


def _copy_transitions(copied: dict[Any, Any]) -> None:
    names = {model._meta.model_name: model for model, _ in copied}
    for row in list(Transition.objects.all()):
        about = copied.get((names.get(row.subject), row.subject_id))
        if about is not None:
            row.pk, row.position = row.pk + FAR, None
            row.subject_id, row.name, row.why = about.pk, HIDDEN, HIDDEN
            row.who = HIDDEN
            row.save(force_insert=True)
