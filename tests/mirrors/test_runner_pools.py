"""Flows of a pool move between its runners: one at a time, prepared, with their reasons."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.specs import ClusterSpec
from mirrors.models import Cluster, Flow, FlowMove, FlowTopic, Job, Runner, Transition
from mirrors.services import clusters, process_liveness
from mirrors.services.errors import Conflict
from mirrors.services.flows import commands, moves, reconciler
from mirrors.services.flows import settings as flow_settings
from mirrors.services.runners import pools
from mirrors.services.runners import settings as runners
from monitoring.prometheus.metrics import scrape
from tests.mirrors.conftest import WHO, fresh, is_in, reconcile_until

pytestmark = pytest.mark.django_db
BUSY = 30e6


@pytest.fixture
def pool(flow: Flow, pair: tuple[Cluster, Cluster]) -> Flow:
    """Three busy flows on `default`; the runner `other` of its pool was never started."""
    default = fresh(flow).runner
    runners.update_runner(runner=default, pool="east", who=WHO)
    runners.create_runner(name="other", master="local[8,4]", pool="east", who=WHO)
    for alias, port in (("three", 10), ("four", 11)):
        source = clusters.create_cluster(
            spec=ClusterSpec(alias=alias, bootstrap_servers=f"127.0.0.1:{port}"), who=WHO
        )
        flow_settings.create_flow(
            source=source, target=pair[1], runner=default, properties={}, who=WHO
        )
    for each in Flow.objects.all():
        reconcile_until(each, is_in("running"))
    busy()
    return flow


def busy() -> None:
    """Each flow has a known rate."""
    now = timezone.now()
    for flow in Flow.objects.all():
        FlowTopic.objects.update_or_create(
            flow=flow,
            topic="orders",
            defaults={
                "state": "replicated",
                "partitions": 3,
                "bytes_per_second": BUSY,
                "as_of": now,
            },
        )
    FlowTopic.objects.update(bytes_per_second=BUSY)
    report()


def report() -> None:
    """Flows, runners and the worker of this host have reported just now."""
    kind = process_liveness.RECONCILE_WORKER
    process_liveness.record_process(kind=kind, name="reconcile", pid=os.getpid())
    now = timezone.now()
    Flow.objects.update(as_of=now)
    Runner.objects.filter(state="ready").update(seen_at=now)


def show() -> pools.Pool:
    report()
    return pools.show_pool(name="east", now=timezone.now())


def move_to_its_end(flow: Flow, within: int = 600) -> FlowMove:
    for _ in range(within):
        reconciler.reconcile()
        moves.balance_pools(now=timezone.now())
        move = FlowMove.objects.get()
        if move.ended_at is not None:
            return move
        # A flow has at most one open job at any time, on the runner that it is on.
        assert Job.objects.filter(flow=move.flow_id, ended_at=None).count() <= 1
    raise AssertionError(f"the move of {flow} does not end")


def test_the_plan_names_the_move_and_a_request_makes_it(pool: Flow, root: Path) -> None:
    shown = show()
    assert (shown.verdict.state, shown.verdict.ratio) == ("due", 2.0)
    (planned,) = shown.verdict.plan
    assert (planned.before, planned.to) == ("default", "other")
    report()
    moves.request_next_move(pool="east", who="ann")
    with pytest.raises(Conflict, match="when the process of other is ready"):
        moves.request_next_move(pool="east", who="ann")
    move = FlowMove.objects.get()
    flow = Flow.objects.get(pk=move.flow_id)
    moves.balance_pools(now=timezone.now())
    assert fresh(flow).runner.name == "default", "it copies there until the other one is ready"
    move = move_to_its_end(flow)
    assert (move.succeeded, move.requested_by) == (True, "ann")
    assert move.outcome.startswith("It copies on other after a pause of ")
    assert fresh(flow).runner.name == "other"
    assert launcher.read_spec(root / "default", flow.pk) is None
    assert launcher.read_spec(root / "other", flow.pk) is not None
    ended, = Job.objects.filter(flow=flow).exclude(ended_at=None)  # fmt: skip
    assert (ended.runner, ended.state) == (Runner.objects.get(name="default"), "stopped")
    notes = Transition.objects.filter(subject="flow", subject_id=flow.pk, who="ann")
    assert any(planned.reason in note.why for note in notes)
    # A second plan moves nothing: the busier runner would not lose a fifth.
    reconcile_until(flow, is_in("running"))
    busy()
    assert show().verdict.plan == ()
    with pytest.raises(Conflict, match="No flow of the pool east moves now"):
        moves.request_next_move(pool="east", who="ann")


def test_a_pool_moves_flows_without_a_person_only_when_all_say_so(pool: Flow) -> None:
    report()
    now = timezone.now()
    moves.balance_pools(now=now)
    assert not FlowMove.objects.exists()
    assert show().automatic.reason == "Flows move only on request."
    assert Runner.objects.get(name="default").uneven_since == now
    for runner in Runner.objects.all():
        runners.update_runner(runner=runner, auto_balance=True, who=WHO)
    report()
    moves.balance_pools(now=now)
    assert "if it stays so" in show().automatic.reason
    assert not FlowMove.objects.exists()
    report()
    Runner.objects.filter(name="default").update(uneven_since=now - timedelta(minutes=6))
    moves.balance_pools(now=timezone.now())
    move = move_to_its_end(pool)
    assert (move.requested_by, move.succeeded) == ("reconciler", True)


def test_a_flow_stays_when_the_new_runner_does_not_start(pool: Flow, root: Path) -> None:
    (root / "other").mkdir()
    (root / "other" / "no-start").touch()
    report()
    moves.request_next_move(pool="east", who="ann")
    for _ in range(20):
        reconciler.reconcile()
    moves.balance_pools(now=timezone.now())
    FlowMove.objects.update(requested_at=timezone.now() - timedelta(minutes=3))
    moves.balance_pools(now=timezone.now())
    move = FlowMove.objects.get()
    assert move.succeeded is False
    assert "other was not ready within two minutes, so it stays on default." in move.outcome
    assert fresh(move.flow).runner.name == "default"
    assert "The process of other died when it started; see its log." in show().verdict.reason


def test_what_a_person_does_meanwhile_ends_the_move(pool: Flow) -> None:
    report()
    moves.request_next_move(pool="east", who="ann")
    move = FlowMove.objects.get()
    commands.pause_flow(flow=fresh(move.flow), who=WHO)
    moves.balance_pools(now=timezone.now())
    move.refresh_from_db()
    assert (move.succeeded, move.outcome) == (False, "It is paused, so it stays on default.")


def test_pinned_paused_and_unknown_flows_do_not_move(pool: Flow, admin_client: Client) -> None:
    for flow in Flow.objects.all():
        flow_settings.update_flow(flow=flow, properties={"runner.pinned": "true"}, who=WHO)
    assert (show().verdict.state, show().verdict.plan) == ("indivisible", ())
    assert "stays on its runner: runner.pinned is true" in show().verdict.reason
    FlowTopic.objects.filter(flow=pool).update(bytes_per_second=None)
    verdict = show().verdict
    assert verdict.state == "unknown"
    assert f"default is not compared: the rate of {pool.name} is unknown." in verdict.reason
    FlowTopic.objects.update(bytes_per_second=None)
    (found,) = admin_client.get("/api/v1/runner-pools/").json()
    rates = [(one["bytes_per_second"], len(one["unknown"])) for one in found["runners"]]
    assert rates == [(None, 3), (0, 0)]
    page = admin_client.get("/runners/").content.decode()
    sentence = f"the rate of {pool.name}".replace("->", "→")
    assert f"default is not compared: {sentence}" in page


def test_a_new_flow_is_placed_on_the_runner_with_the_least_load(pool: Flow) -> None:
    cluster = Cluster.objects.get(alias="three")
    made = flow_settings.create_flow(source=pool.source, target=cluster, properties={}, who=WHO)
    assert made.runner.name == "other"
    first = Transition.objects.filter(subject="flow", subject_id=made.pk).order_by("id")[0]
    assert "Placed on other, which has the least load of the pool east." in first.why


def test_a_pool_is_checked(pool: Flow) -> None:
    runner = Runner.objects.get(name="other")
    with pytest.raises(InvalidSettings, match="The name of a pool is 1 to 63 letters"):
        runners.update_runner(runner=runner, pool="a b", who=WHO)
    with pytest.raises(InvalidSettings, match="Name a pool"):
        runners.update_runner(runner=runner, pool="", auto_balance=True, who=WHO)
    with pytest.raises(Conflict, match="No runner has the pool west"):
        moves.request_next_move(pool="west", who=WHO)


def test_the_page_and_rest_show_it_and_begin_a_move(pool: Flow, admin_client: Client) -> None:
    report()
    page = admin_client.get("/runners/").content.decode()
    assert "default has 2.0 times an even share of 2 runners." in page
    assert "busiest runner 2.0 → 1.3 times an even share" in page
    report()
    (shown,) = admin_client.get("/api/v1/runner-pools/").json()
    assert (shown["name"], shown["state"], shown["ratio"]) == ("east", "due", 2.0)
    assert [one["bytes_per_second"] for one in shown["runners"]] == [3 * BUSY, 0]
    assert shown["plan"][0]["to"] == "other"
    report()
    figures = [
        line.rsplit(" ", 1)[1]
        for line in scrape(now=timezone.now(), partitions=False).decode().splitlines()
        if line.startswith("understudy_runner_load_ratio{")
    ]
    assert figures == ["2.0", "0.0"]
    answer = admin_client.post("/api/v1/runner-pools/west/balance/")
    assert (answer.status_code, answer.json()["error"]["message"]) == (
        404, "No runner has the pool west.",
    )  # fmt: skip
    report()
    answer = admin_client.post("/runner-pools/east/balance/", follow=True)
    assert "moves from default to other when the process of other is ready" in (
        answer.content.decode()
    )
    answer = admin_client.post("/api/v1/runner-pools/east/balance/")
    assert answer.status_code == 409
    (shown,) = admin_client.get("/api/v1/runner-pools/").json()
    assert (shown["state"], shown["plan"], shown["moves"][0]["succeeded"]) == ("moves", [], None)
