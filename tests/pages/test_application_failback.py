"""The failback of one application: its page and REST name the next step."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.settings.table import IDENTITY_POLICY
from mirrors.models import (
    Divergence,
    Failback,
    FailoverRun,
    FailoverStep,
    Flow,
    OrphanStretch,
)
from tests.pages import world
from tests.pages.conftest import As

SAME_NAMES = {"replication.policy.class": IDENTITY_POLICY}
JSON = "application/json"
SKIPS = {**SAME_NAMES, "skip.replicated": "true", "delivery": "exactly_once"}


@pytest.fixture
def run(db: None) -> FailoverRun:
    """A switchover of the topics of shop, from primary to backup, with the same names."""
    flow = world.flow(world.cluster("primary"), world.cluster("backup"), properties=SKIPS)
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
    return world.flow(run.flow.target, run.flow.source, **{"properties": SKIPS, **facts})


def next_of(client: Client, run: FailoverRun) -> tuple[str, str]:
    answer = client.get(f"/api/v1/failovers/{run.pk}/failback/").json()
    page = client.get(f"/failovers/{run.pk}/failback/").content.decode()
    shown = html.unescape(re.sub("</?code>", "", page))
    assert answer["sentence"].replace("->", "→").replace("`", "") in shown
    return answer["next"], page


def listed_over_rest(client: Client, run: FailoverRun, **facts: object) -> Any:
    body = {"flow": run.flow_id, "failover": run.pk, "reason": "They count.", **facts}
    return client.post("/api/v1/failbacks/", body, content_type=JSON)


def test_without_a_reverse_flow_it_is_created_at_the_divergence_points(
    signed_in: As, run: FailoverRun
) -> None:
    operator = signed_in("operator")
    flow = run.flow
    world.topic(flow, "shop.orders", remote_topic="shop.orders")
    flow.properties = {
        **SAME_NAMES,
        "topics": ".*",
        "topics.exclude": r"secret.*,shop\.orders",
        "tasks.max": "3",
    }
    flow.save()
    code, page = next_of(operator, run)
    assert code == "create"
    address = f"/failovers/{run.pk}/failback/create/"
    assert f'action="{address}"' in page
    assert signed_in("viewer").post(address).status_code == 403
    assert operator.post(address).status_code == 302
    back = Flow.objects.get(source=flow.target, target=flow.source)
    assert back.properties == {
        **SAME_NAMES, "topics": r"shop\..*", "topics.exclude": "secret.*", "tasks.max": "3",
        "start.from": "shop.orders:0:70,shop.orders:1:90", "skip.replicated": "true",
        "delivery": "exactly_once",
    }  # fmt: skip
    flow.refresh_from_db()
    assert (flow.properties["skip.replicated"], back.desired_state) == ("true", "running")
    assert operator.post(f"/api/v1/failovers/{run.pk}/failback/").status_code == 409
    # One that a person changed since.
    flow.properties.pop("skip.replicated")
    flow.save()
    world.topic(back, "shop.orders", remote_topic="shop.orders")
    code, page = next_of(operator, run)
    assert code == "select"
    assert "primary→backup has" in page


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


def test_records_that_a_failover_left_are_listed_and_decided_on_first(
    signed_in: As, run: FailoverRun
) -> None:
    FailoverRun.objects.filter(pk=run.pk).update(kind="failover", result={"totals": {"loss": 41}})
    operator = signed_in("operator")
    code, page = next_of(operator, run)
    assert code == "list"
    assert "41 records of primary were not replicated" in page
    path = f"/failovers/{run.pk}/orphans/"
    assert signed_in("viewer").post(path).status_code == 403
    listing = Failback.objects.get(pk=int(operator.post(path)["Location"].split("/")[2]))
    assert (listing.failover_id, listing.scope, listing.state) == (run.pk, run.scope, "queued")
    assert listed_over_rest(operator, run).status_code == 409
    # A worker lists them.
    Failback.objects.filter(pk=listing.pk).update(state="running", listed_at=timezone.now())
    row = OrphanStretch.objects.create(
        failback=listing, topic="shop.orders", partition=0, remote_topic="shop.orders", first=50,
        end=91, records=41, settled_to=50,
    )  # fmt: skip
    code, page = next_of(operator, run)
    assert code == "decide"
    assert f'href="/failbacks/{listing.pk}/"' in page
    page = operator.get(f"/failbacks/{listing.pk}/").content.decode()
    assert f"Orphans of failover {run.pk}" in page
    assert "stops while a decision is carried out" in page
    assert "Move idle groups" not in page
    answer = operator.get(f"/api/v1/failovers/{run.pk}/failback/").json()
    assert (answer["left"], answer["orphans"], answer["undecided"]) == (41, listing.pk, 41)
    assert operator.get(f"/api/v1/failbacks/{listing.pk}/").json()["scope"] == run.scope
    refused = operator.post(f"/api/v1/failbacks/{listing.pk}/groups/", "{}", content_type=JSON)
    assert refused.status_code == 409
    assert "switchover of the reverse flow with the same scope" in refused.content.decode()
    OrphanStretch.objects.filter(pk=row.pk).update(state="dropped")
    assert next_of(operator, run)[0] == "create"


def test_an_unknown_number_of_records_is_not_zero(viewer: Client, run: FailoverRun) -> None:
    FailoverRun.objects.filter(pk=run.pk).update(kind="failover", result={})
    page = viewer.get(f"/failovers/{run.pk}/failback/").content.decode()
    assert "An unknown number of records" in page
    assert "Needs the role operator" in page


def test_a_switchover_leaves_nothing_to_list(signed_in: As, run: FailoverRun) -> None:
    answer = listed_over_rest(signed_in("operator"), run)
    assert answer.status_code == 409
    other = listed_over_rest(signed_in("operator"), run, flow=world.flow().pk)
    assert other.status_code == 400
    assert "not a run of this flow" in other.content.decode()
    assert "left no record" in answer.json()["error"]["message"]


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
