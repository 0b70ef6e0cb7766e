"""A person drains a host: its runners go to another one in order, and it accepts no new ones."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.runners.host_drains import ENDS_S
from mirrors.models import Flow, Host, Runner, Transition
from mirrors.services.errors import Conflict
from mirrors.services.flows import reconciler
from mirrors.services.runners import hosts
from mirrors.services.runners import settings as runners
from mirrors.services.runners.preparations import Preparations
from tests.mirrors.conftest import WHO, fresh, is_in, reconcile_until
from tests.mirrors.machines import Machine, age, both_hold

pytestmark = pytest.mark.django_db


def row(name: str) -> hosts.HostRow:
    return next(one for one in hosts.with_runners() if one.name == name)


def ended(runner: Runner) -> None:
    """Long enough after its move for the old process to have ended."""
    earlier = timedelta(seconds=ENDS_S + 1)
    Host.objects.update(draining_since=F("draining_since") - earlier)
    Runner.objects.filter(pk=runner.pk).update(moved_at=F("moved_at") - earlier)


def test_runners_are_handed_over_and_the_host_is_drained_when_they_have_started(
    flow: Flow,
    leased: Runner,
    a: Machine,
    b: Machine,
) -> None:
    reconcile_until(flow, is_in("running"))
    both_hold(a, b)
    hosts.drain(name="a", who="ann")
    assert [one.state for one in row("a").handovers] == ["moves"]
    assert a.take_over() == []
    assert b.take_over() == [leased.name]
    moved = Runner.objects.get(pk=leased.pk)
    assert (moved.host, moved.move_reason) == ("b", "ann drains a. b took it over.")
    (handover,) = row("a").handovers
    assert (handover.state, handover.to, row("a").is_drained) == ("starts", "b", False)
    b.be()
    reconcile_until(flow, is_in("running"))
    Runner.objects.update(state="ready")
    assert [one.state for one in row("a").handovers] == ["starts"], "the old process may still end"
    ended(leased)
    assert row("a").handovers == []
    assert row("a").is_drained
    # Nothing goes back, neither now nor after the drain.
    hosts.end_drain(name="a", who="ann")
    assert (a.take_over(), row("a").draining_since) == ([], None)
    entries = Transition.objects.filter(subject="host").order_by("id")
    assert [(one.name, one.to_state, one.who) for one in entries] == [
        ("a", "drain started", "ann"), ("a", "drain ended", "ann"),
    ]  # fmt: skip


def test_the_process_starts_on_the_new_host_while_the_old_one_copies_on(
    flow: Flow, leased: Runner, a: Machine, b: Machine
) -> None:
    reconcile_until(flow, is_in("running"))
    both_hold(a, b)
    hosts.drain(name="a", who="ann")
    b.be()
    preparations = Preparations()

    def turn() -> list[str]:
        hosts.renew(root=b.root, host="b", preparing=preparations.names)
        found = hosts.take_over(root=b.root, host="b", preparations=preparations)
        return [move.runner for move in found]

    assert turn() == []
    assert preparations.names == {leased.name}
    leased.refresh_from_db()
    assert (leased.host, leased.state) == ("a", "ready")
    until = time.monotonic() + 60
    while turn() == []:
        assert time.monotonic() < until
        # It is not ended as one that another host serves.
        lease = launcher.read_lease(b.root)
        assert lease is not None
        assert (lease.leased, lease.elsewhere) == ((leased.name,), ())
        time.sleep(0.2)
    assert Runner.objects.get(pk=leased.pk).host == "b"
    prepared = launcher.read_runner(b.root / leased.name)
    assert prepared is not None
    reconcile_until(flow, is_in("running"))
    leased.refresh_from_db()
    assert leased.pid == prepared.pid, "it goes on with that process"
    assert turn() == []
    assert preparations.names == set()


def test_after_a_failure_nothing_is_waited_for(
    flow: Flow, leased: Runner, a: Machine, b: Machine
) -> None:
    reconcile_until(flow, is_in("running"))
    both_hold(a, b)
    age("a", 100)
    (move,) = hosts.take_over(root=b.root, host="b", preparations=Preparations())
    assert (move.runner, move.at_once) == (leased.name, True)


def test_one_runner_after_the_other(
    flow: Flow,
    leased: Runner,
    a: Machine,
    b: Machine,
) -> None:
    reconcile_until(flow, is_in("running"))
    other = runners.create_runner(
        name="another", master="local[2]", host="a", failover_hosts="*", who=WHO
    )
    both_hold(a, b)
    Runner.objects.filter(pk=other.pk).update(is_leased=True)
    Flow.objects.filter(pk=flow.pk).update(runner=other)
    hosts.drain(name="a", who="ann")
    # The open job still needs the first runner, the flow the second.
    assert [(one.runner, one.state) for one in row("a").handovers] == [
        ("another", "moves"), (leased.name, "waits"),
    ]  # fmt: skip
    assert b.take_over() == ["another"]
    assert b.take_over() == []
    Runner.objects.filter(pk=other.pk).update(state="ready")
    ended(other)
    assert b.take_over() == [leased.name]


def test_a_drained_host_starts_no_runner_that_has_no_host_yet(
    flow: Flow,
    a: Machine,
    b: Machine,
) -> None:
    both_hold(a, b)
    hosts.drain(name="a", who="ann")
    reconciler.reconcile()
    assert fresh(flow).runner.host == ""
    hosts.end_drain(name="a", who="ann")
    reconcile_until(flow, is_in("running"))
    assert fresh(flow).runner.host == "a"


def test_the_only_host_cannot_be_drained(a: Machine, b: Machine) -> None:
    a.renew()
    with pytest.raises(Conflict, match="No other host renews a lease"):
        hosts.drain(name="a", who="ann")
    b.renew()
    assert hosts.drain(name="a", who="ann").draining_by == "ann"
    # Once more is the same drain.
    assert hosts.drain(name="a", who="bob").draining_by == "ann"
    with pytest.raises(Conflict, match="so nothing can take over those of b"):
        hosts.drain(name="b", who="ann")


def test_a_drained_host_that_fails_with_a_runner_on_it_is_not_drained(
    flow: Flow, leased: Runner, a: Machine, b: Machine, admin_client: Client
) -> None:
    reconcile_until(flow, is_in("running"))
    both_hold(a, b)
    hosts.drain(name="a", who="ann")
    age("a", 100)
    assert [(one.state, row("a").is_drained) for one in row("a").handovers] == [("waits", False)]
    page = admin_client.get("/runners/").content.decode()
    assert "lease ended" in page
    assert ">drained<" not in page
    assert b.take_over() == [leased.name]
    assert (row("a").is_drained, row("a").staying) == (True, 0)


def test_pages_and_rest_drain_a_host_and_say_what_stays(
    flow: Flow,
    leased: Runner,
    a: Machine,
    b: Machine,
    admin_client: Client,
) -> None:
    runners.update_runner(runner=leased, failover_hosts="", who=WHO)
    both_hold(a, b)
    asks = admin_client.get("/hosts/a/drain/").content.decode()
    assert "default: It stays on a: its list of other hosts is empty." in asks
    assert row("a").draining_since is None, "reading it drains nothing"
    assert admin_client.post("/hosts/a/drain/").status_code == 302
    page = admin_client.get("/runners/").content.decode()
    assert "drained in part" in page
    assert "1 runner stays on it." in page
    assert "its list of other hosts is empty" in page
    assert "End the drain" in page
    answer = admin_client.post("/api/v1/hosts/a/end-drain/")
    assert (answer.status_code, answer.json()["draining_since"]) == (200, None)
    drained = admin_client.post("/api/v1/hosts/a/drain/").json()
    assert (drained["draining_by"], drained["is_drained"], drained["staying"]) == ("admin", True, 1)
    assert [(one["runner"], one["state"]) for one in drained["handovers"]] == [("default", "stays")]
    refused = admin_client.post("/api/v1/hosts/b/drain/")
    assert refused.status_code == 409
    assert admin_client.post("/api/v1/hosts/nowhere/drain/").status_code == 404
    Host.objects.update(renewed_at=timezone.now() - timedelta(days=3))
    Runner.objects.update(host="b")
    listed = admin_client.get("/api/v1/hosts/").json()
    assert [one["name"] for one in listed] == ["a", "b"], "a drained host stays on the list"
