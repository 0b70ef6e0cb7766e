"""How long rows are kept after they ended; rows that have not ended stay."""

from __future__ import annotations

from datetime import timedelta

import pytest
from axes.models import AccessAttempt, AccessFailureLog, AccessLog
from django.contrib.sessions.models import Session
from django.utils import timezone

from mirrors.models import Job, Sighting
from mirrors.services.retention import RULES, Rule, prune
from tests.pages import world

NO_FORM = {"get_data": "", "post_data": "", "failures_since_start": 1}
pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.kind)
def test_each_rule_asks_for_a_moment_of_its_rows(rule: Rule) -> None:
    assert rule.model._meta.get_field(rule.field).get_internal_type() == "DateTimeField"
    assert rule.delete(timezone.now()) == 0


def test_old_rows_are_deleted_and_open_and_young_ones_stay() -> None:
    flow, now = world.flow(), timezone.now()
    ends = {"old": now - timedelta(days=91), "young": now - timedelta(days=89), "open": None}
    for reason, ended_at in ends.items():
        world.job(flow, state="stopped", reason=reason, ended_at=ended_at)
    facts = {"kind": "worker", "host": "h", "pid": 1}
    Sighting.objects.create(name="one", seen_at=now - timedelta(hours=25), **facts)
    Sighting.objects.create(name="two", seen_at=now, **facts)
    found = prune()
    assert (found["jobs"], found["sightings"]) == (1, 1)
    assert {*Job.objects.values_list("reason", flat=True)} == {"young", "open"}
    assert [row.name for row in Sighting.objects.all()] == ["two"]
    assert {*found} == {*(rule.kind for rule in RULES), "transitions", "evidence", "simulations"}


def test_rows_that_anybody_may_cause_are_deleted() -> None:
    now = timezone.now()
    facts = {"username": "x", "ip_address": "192.0.2.1", "user_agent": "", "path_info": "/login/"}
    for model in (AccessAttempt, AccessFailureLog, AccessLog):
        more = NO_FORM if model is AccessAttempt else {}
        model.objects.create(**facts, **more)
        model.objects.update(attempt_time=now - timedelta(days=31))
        model.objects.create(**{**facts, "username": "y"}, **more)
    for key, ends in (("old", now - timedelta(minutes=1)), ("open", now + timedelta(hours=1))):
        Session.objects.create(session_key=key, session_data="", expire_date=ends)
    prune()
    for model in (AccessAttempt, AccessFailureLog, AccessLog):
        assert [row.username for row in model.objects.all()] == ["y"], model
    assert [row.session_key for row in Session.objects.all()] == ["open"]
