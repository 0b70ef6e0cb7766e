"""Pages and REST of failbacks: requested with a reason; orphans read, downloaded and decided on."""

from __future__ import annotations

import csv
import io
import json

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.errors import Fenced, KafkaUnavailable
from mirrors.models import (
    Failback,
    FailoverRun,
    FailoverStep,
    Flow,
    OrphanStretch,
    Transition,
)
from mirrors.services.failback import orphan_resolution, switchover
from tests.failback_rows import fenced, going_back
from tests.pages import world
from tests.pages.conftest import As


def rest(of: Flow) -> Flow:
    of.desired_state = of.observed_state = "stopped"
    of.save()
    return of


@pytest.fixture
def flow(db: None) -> Flow:
    return rest(world.flow(world.cluster("primary"), world.cluster("backup")))


@pytest.fixture
def operator(signed_in: As) -> Client:
    return signed_in("operator")


def test_a_failback_is_requested_with_a_reason_and_only_of_a_stopped_flow(
    operator: Client, viewer: Client, flow: Flow
) -> None:
    path = f"/flows/{flow.pk}/failback/"
    assert b"Prepare and start" not in viewer.get(path).content
    assert viewer.post(path, {"reason": "x"}).status_code == 403
    assert operator.post(path, {"reason": " "}).status_code == 422
    Flow.objects.update(desired_state="running")
    refused = operator.post(path, {"reason": "It is up again."})
    assert refused.status_code == 409
    assert "is not stopped" in refused.content.decode()
    rest(flow)
    assert operator.post(path, {"reason": "It is up again."}).status_code == 302
    run = Failback.objects.get()
    assert (run.state, run.why, run.requested_by) == ("queued", "It is up again.", "the-operator")
    assert operator.post(path, {"reason": "Again."}).status_code == 409
    assert operator.get(f"/failbacks/{run.pk}/").status_code == 200


def test_what_only_the_old_primary_has_is_read_downloaded_and_decided_on(
    operator: Client, flow: Flow
) -> None:
    run = going_back(flow)
    page = f"/failbacks/{run.pk}/"
    assert "backup-&gt;primary is created" in operator.get(page).content.decode()
    stretch = run.orphans.get(partition=0)
    records = f"{page}orphans/{stretch.pk}/"
    assert "=1+1" in operator.get(records).content.decode()
    text = operator.get(f"{records}?as=jsonl").getvalue().decode()  # type: ignore[attr-defined]
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["offset"] for row in rows] == [20, 21]
    assert rows[1]["value_base64"] == "/v8="
    text = operator.get(f"{records}?as=csv").getvalue().decode()  # type: ignore[attr-defined]
    (first, _) = csv.DictReader(io.StringIO(text))
    assert first["value"] == "'=1+1", "no spreadsheet takes it for a formula"
    asked = {"decision": "replay", "stretch": str(stretch.pk), "reason": "They count."}
    operator.post(f"{page}decide/", {**asked, "reason": ""})
    assert OrphanStretch.objects.filter(state="decided").count() == 0
    operator.post(f"{page}decide/", asked)
    stretch.refresh_from_db()
    assert (stretch.state, stretch.decision) == ("decided", "replay")
    assert Transition.objects.filter(to_state="orphans: replay", who="the-operator").exists()
    again = operator.post(f"{page}decide/", asked, follow=True).content.decode()
    assert "without a decision" in again


def test_a_failed_failback_is_retried_and_a_running_one_is_closed(
    operator: Client, viewer: Client, flow: Flow
) -> None:
    run = going_back(flow, state="failed", reason="It was not there.")
    page = f"/failbacks/{run.pk}/"
    operator.post(f"{page}groups/", {"act": "yes"})
    for verb in ("retry", "close", "groups", "decide"):
        assert viewer.post(f"{page}{verb}/").status_code == 403
    operator.post(f"{page}retry/")
    run.refresh_from_db()
    assert run.state == "queued"
    Failback.objects.update(state="running")
    operator.post(f"{page}groups/", {"act": "yes"})
    operator.post(f"{page}close/", {"reason": "All is back."})
    run.refresh_from_db()
    assert (run.state, run.ended_at is not None) == ("succeeded", True)


def test_to_switch_back_is_one_act_once_nothing_waits(operator: Client, flow: Flow) -> None:
    run = going_back(flow)
    path = f"/failbacks/{run.pk}/switch/"
    asked = {"confirm_alias": "primary", "reason": "Maintenance is over."}

    def said(**changes: str) -> str:
        return operator.post(path, {**asked, **changes}, follow=True).content.decode()

    assert "Type the alias of the cluster to fail back to, primary" in said(confirm_alias="backup")
    assert "Give a reason" in said(reason=" ")
    assert "2 records exist only on primary and have no decision" in said()
    OrphanStretch.objects.update(state="dropped")
    assert "The lag of the reverse flow is not known yet" in said()
    world.topic(run.reverse, offset_lag=200_000)
    assert "200,000 records behind" in said()
    Flow.objects.filter(pk=run.reverse_id).update(observed_state="starting")
    assert "The reverse flow is starting" in said()
    # A stopped partition is a blocker that its simulation lists.
    Flow.objects.filter(pk=run.reverse_id).update(observed_state="degraded")
    world.owes(run.reverse, offset_lag=3)
    assert operator.post(path, asked).status_code == 302
    simulated = FailoverRun.objects.get()
    assert (simulated.kind, simulated.flow_id) == ("simulation", run.reverse_id)
    assert switchover.begin_simulated() == [], "not before it has succeeded"
    plan = {"blockers": [], "partitions": [], "places": []}
    FailoverRun.objects.update(state="succeeded", ended_at=timezone.now(), plan=plan)
    (begun,) = switchover.begin_simulated()
    assert switchover.begin_simulated() == [], "and not twice"
    switched = FailoverRun.objects.get(pk=begun)
    assert (switched.kind, switched.simulation_id) == ("switchover", simulated.pk)
    assert switched.requested_by == "the-operator"
    switchover.close_switched()
    run.refresh_from_db()
    assert run.state == "running"
    FailoverRun.objects.filter(pk=begun).update(state="succeeded", ended_at=timezone.now())
    rules = {"rules": [{"name": "orders", "principal": "User:*", "operation": "WRITE"}]}
    FailoverStep.objects.filter(run=begun, name="fence_producers").update(result=rules)
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    Flow.objects.filter(pk=flow.pk).update(properties={"replication.policy.class": identity})
    switchover.close_switched()
    run.refresh_from_db()
    assert run.state == "succeeded"
    assert "moved the clients back to primary" in run.reason
    assert "It left backup fenced" in run.reason


@pytest.mark.parametrize("state", ["succeeded", "failed"])
@pytest.mark.parametrize("words", ["Failback {}: Maintenance.", "Way back {}: Maintenance."])
def test_no_reason_of_a_simulation_begins_a_switchover(flow: Flow, state: str, words: str) -> None:
    run = going_back(flow)
    OrphanStretch.objects.update(state="dropped")
    world.topic(run.reverse)
    FailoverRun.objects.create(
        flow=run.reverse,
        kind="simulation",
        state=state,
        ended_at=timezone.now(),
        plan={"blockers": [], "partitions": [], "places": []},
        requested_by="ann",
        why=words.format(run.pk),
    )
    assert switchover.begin_simulated() == []
    assert not FailoverRun.objects.exclude(kind="simulation").exists()
    before, _ = run.reason, run.refresh_from_db()
    assert run.reason == before


def test_a_switch_back_that_is_refused_says_so_and_is_not_tried_again(
    operator: Client, flow: Flow
) -> None:
    run = going_back(flow)
    OrphanStretch.objects.update(state="dropped")
    world.topic(run.reverse)
    asked = {"confirm_alias": "primary", "reason": "Maintenance is over."}
    operator.post(f"/failbacks/{run.pk}/switch/", asked)
    FailoverRun.objects.update(state="succeeded", ended_at=timezone.now(), plan={"blockers": []})
    Flow.objects.filter(pk=run.reverse_id).update(properties={"failover.fence": "webhook"})
    assert switchover.begin_simulated() == []
    run.refresh_from_db()
    assert run.reason.startswith("The switchover was refused: ")
    Failback.objects.update(reason="")
    assert switchover.begin_simulated() == []
    run.refresh_from_db()
    assert run.reason == ""
    operator.post(f"/failbacks/{run.pk}/switch/", asked)
    newest = FailoverRun.objects.filter(flow=run.reverse).first()
    assert newest is not None
    FailoverRun.objects.filter(pk=newest.pk).update(
        state="failed", reason="1 would resume at a wrong record.", ended_at=timezone.now()
    )
    assert switchover.begin_simulated() == []
    run.refresh_from_db()
    assert f"simulation {newest.pk} failed: 1 would resume at a wrong record." in run.reason


def test_the_fence_of_an_earlier_run_is_shown_and_lifted_with_a_reason(
    operator: Client, viewer: Client, flow: Flow
) -> None:
    back = going_back(flow)
    run = fenced(flow)
    path, words = f"/failovers/{run.pk}/lift/", "Let producers write on primary again"
    for page in (f"/failbacks/{back.pk}/", f"/failovers/{run.pk}/"):
        assert words in operator.get(page).content.decode()
        assert words not in viewer.get(page).content.decode()
    assert viewer.post(path, {"reason": "They are gone."}).status_code == 403
    assert "Give a reason" in operator.post(path, {"reason": " "}, follow=True).content.decode()
    operator.post(path, {"reason": "They are gone."})
    kept = Transition.objects.get(to_state="fence lifted")
    assert (kept.who, kept.why) == ("the-operator", "They are gone.")
    run.steps.update(undone_at=timezone.now())
    assert words not in operator.get(f"/failbacks/{back.pk}/").content.decode()
    assert "left no ACLs" in operator.post(path, {"reason": "x"}, follow=True).content.decode()


def test_a_worker_that_another_one_fenced_leaves_the_decisions_as_they_are(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = going_back(flow)
    OrphanStretch.objects.update(state="decided", decision="replay")

    def fenced_by_another(_: Failback) -> None:
        raise Fenced("Another owner took over.", code="fenced")

    monkeypatch.setattr(orphan_resolution, "_Resolution", fenced_by_another)
    assert orphan_resolution.resolve_orphans(run_id=run.pk) == 0
    assert set(OrphanStretch.objects.values_list("state", flat=True)) == {"decided"}


def test_a_producer_that_fails_permanently_is_replaced_once(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = going_back(flow)
    OrphanStretch.objects.update(state="decided", decision="replay")
    writers: list[object] = []

    class Resolution:
        def __init__(self, _: Failback) -> None:
            writers.append(self)

        def settle(self, _: OrphanStretch) -> str:
            if len(writers) == 1:
                raise KafkaUnavailable("The producer failed permanently.", code="producer_lost")
            return "They were replayed."

    monkeypatch.setattr(orphan_resolution, "_Resolution", Resolution)
    monkeypatch.setattr(orphan_resolution, "check_stopped", lambda _: None)
    monkeypatch.setattr(orphan_resolution, "refresh_index", lambda **_: None)
    count = OrphanStretch.objects.count()
    assert orphan_resolution.resolve_orphans(run_id=run.pk) == count > 0
    assert set(OrphanStretch.objects.values_list("state", flat=True)) == {"replayed"}
    assert len(writers) == 2
