"""The failback of one application: its page and REST name the next step."""

from __future__ import annotations

import html
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.settings.table import IDENTITY_POLICY
from mirrors.models import Divergence, FailoverRun, FailoverStep, Flow
from tests.pages import world
from tests.pages.conftest import As

SAME_NAMES = {"replication.policy.class": IDENTITY_POLICY}


@pytest.fixture
def run(db: None) -> FailoverRun:
    """A switchover of the topics of shop, from primary to backup, with the same names."""
    flow = world.flow(world.cluster("primary"), world.cluster("backup"), properties=SAME_NAMES)
    now = timezone.now()
    for number, downstream in ((1, 90), (0, 70)):
        facts = {"position": 50, "downstream": downstream, "end": downstream, "how": "runs"}
        Divergence.objects.create(
            flow=flow, topic="shop.orders", partition=number, remote_topic="shop.orders",
            mark="m", kept_at=now, **facts,
        )  # fmt: skip
    return FailoverRun.objects.create(
        flow=flow, kind="switchover", state="succeeded", mark="s", requested_by="ann",
        scope={"topics": [r"shop\..*"], "groups": []}, result={"totals": {"loss": 0}}, ended_at=now,
    )  # fmt: skip


def reverse_of(run: FailoverRun, **facts: object) -> Flow:
    skips = {**SAME_NAMES, "skip.replicated": "true", "delivery": "exactly_once"}
    return world.flow(run.flow.target, run.flow.source, **{"properties": skips, **facts})


def next_of(client: Client, run: FailoverRun) -> tuple[str, str]:
    answer = client.get(f"/api/v1/failovers/{run.pk}/failback/").json()
    page = client.get(f"/failovers/{run.pk}/failback/").content.decode()
    shown = html.unescape(re.sub("</?code>", "", page))
    assert answer["sentence"].replace("->", "→").replace("`", "") in shown
    return answer["next"], page


def test_without_a_reverse_flow_its_form_begins_at_the_divergence_points(
    signed_in: As, run: FailoverRun
) -> None:
    operator = signed_in("operator")
    code, page = next_of(operator, run)
    assert code == "create"
    address = re.search(r'href="(/add/flow/\?[^"]+)"', page)
    assert address is not None
    given = parse_qs(urlsplit(address[1].replace("&amp;", "&")).query)
    assert given["start_from"] == ["shop.orders:0:70,shop.orders:1:90"]
    assert (given["topics"], given["skip_replicated"]) == ([r"shop\..*"], ["true"])
    form = operator.get(address[1].replace("&amp;", "&")).content.decode()
    assert "shop.orders:0:70,shop.orders:1:90</textarea>" in form
    assert '<option value="true" selected>Excluded' in form


def test_the_steps_follow_what_the_reverse_flow_does(signed_in: As, run: FailoverRun) -> None:
    operator = signed_in("operator")
    back = reverse_of(run, observed_state="stopped", desired_state="stopped")
    assert next_of(operator, run)[0] == "select"
    world.topic(back, "shop.orders", offset_lag=12, remote_topic="shop.orders")
    assert next_of(operator, run)[0] == "start"
    Flow.objects.filter(pk=back.pk).update(observed_state="running")
    fence = FailoverStep.objects.create(
        run=run, number=4, name="fence_producers", does="Fence", result={"rules": ["r"]}
    )
    assert next_of(operator, run)[0] == "lift"
    FailoverStep.objects.filter(pk=fence.pk).update(undone_at=timezone.now())
    code, page = next_of(operator, run)
    assert code == "wait"
    assert f'href="/flows/{back.pk}/topics/shop.orders/"' in page
    world.owes(back, "shop.orders", offset_lag=None)
    assert "an unknown number of records" in next_of(operator, run)[1]
    world.owes(back, "shop.orders", offset_lag=0)
    code, page = next_of(operator, run)
    assert code == "simulate"
    assert f"/flows/{back.pk}/failover/application/?topics=shop%5C..%2A" in page


def test_records_would_circulate_without_skip_replicated(signed_in: As, run: FailoverRun) -> None:
    back = reverse_of(run, properties=SAME_NAMES)
    world.topic(back, "shop.orders", remote_topic="shop.orders")
    code, page = next_of(signed_in("operator"), run)
    assert code == "select"
    assert "records would circulate" in page


def test_records_that_a_failover_left_are_named_and_unknown_is_not_zero(
    viewer: Client, run: FailoverRun
) -> None:
    FailoverRun.objects.filter(pk=run.pk).update(kind="failover", result={"totals": {"loss": 41}})
    page = viewer.get(f"/failovers/{run.pk}/failback/").content.decode()
    assert "41 records of primary were not replicated" in page
    FailoverRun.objects.filter(pk=run.pk).update(result={})
    page = viewer.get(f"/failovers/{run.pk}/failback/").content.decode()
    assert "0 records" not in page
    assert "Needs the role operator" in page


def test_a_run_of_a_whole_flow_leads_to_its_failback(viewer: Client, run: FailoverRun) -> None:
    assert f"/failovers/{run.pk}/failback/" in viewer.get(f"/failovers/{run.pk}/").content.decode()
    FailoverRun.objects.filter(pk=run.pk).update(scope={})
    answer = viewer.get(f"/failovers/{run.pk}/failback/")
    assert answer["Location"] == f"/flows/{run.flow_id}/failback/"
    assert viewer.get(f"/api/v1/failovers/{run.pk}/failback/").status_code == 409
    assert f'href="/flows/{run.flow_id}/failback/"' in (
        viewer.get(f"/failovers/{run.pk}/").content.decode()
    )


def test_a_reason_that_ends_with_a_full_stop_has_one(viewer: Client, run: FailoverRun) -> None:
    FailoverRun.objects.filter(pk=run.pk).update(why="Migration.")
    page = viewer.get(f"/failovers/{run.pk}/").content.decode()
    assert "Migration. " in page
    assert "Migration.." not in page
