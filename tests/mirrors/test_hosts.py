"""Two hosts on one database: leases, takeover, and what the old host finds when it returns."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone

from controlplane.worker.host_lease import HostLease as LeaseThread
from mirrors import launcher
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.runners.host_leases import LEASE_S, MOVE_WITHIN, RENEW_S
from mirrors.models import AccessGrant, Flow, Host, Job, Role, Runner, Transition
from mirrors.services.flows import commands, reconciler
from mirrors.services.runners import cleanup, hosts
from mirrors.services.runners import settings as runners
from mirrors.services.users import ensure_person
from tests.mirrors.conftest import WHO, fresh, is_in, reconcile_until
from tests.mirrors.machines import Machine, age, both_hold

pytestmark = pytest.mark.django_db


def test_a_runner_is_leased_only_after_the_file_names_it(leased: Runner, a: Machine) -> None:
    a.renew()
    leased.refresh_from_db()
    assert not leased.is_leased
    lease = launcher.read_lease(a.root)
    assert lease is not None
    assert lease.leased == (leased.name,)
    assert lease.ends == lease.written + LEASE_S
    a.renew()
    leased.refresh_from_db()
    assert leased.is_leased
    runners.update_runner(runner=leased, failover_hosts="", who=WHO)
    a.renew()
    leased.refresh_from_db()
    assert not leased.is_leased
    lease = launcher.read_lease(a.root)
    assert lease is not None
    assert lease.leased == ()


def test_the_other_host_takes_over_when_the_lease_has_ended(
    flow: Flow, leased: Runner, a: Machine, b: Machine
) -> None:
    reconcile_until(flow, is_in("running"))
    [first] = Job.objects.filter(flow=flow)
    both_hold(a, b)
    assert b.take_over() == []
    age("a", LEASE_S + 1)
    assert b.take_over() == [leased.name]
    moved = Runner.objects.get(pk=leased.pk)
    assert (moved.host, moved.moved_from, moved.pid, moved.state) == ("b", "a", None, "lost")
    assert moved.is_leased
    assert "a last renewed its lease 3" in moved.move_reason
    lease = launcher.read_lease(b.root)
    assert lease is not None
    assert lease.leased == (leased.name,)
    first.refresh_from_db()
    assert first.state == "lost"
    for subject, number in (("runner", leased.pk), ("flow", flow.pk)):
        entry = Transition.objects.get(subject=subject, subject_id=number, to_state="moved")
        assert "a → b" in entry.why
        assert entry.who == "reconciler"
    b.be()
    reconcile_until(flow, is_in("running"))
    spec = launcher.read_spec(b.root / leased.name, flow.pk)
    assert spec is not None
    assert spec.job != first.pk


def test_a_host_that_returns_gets_nothing_back_and_its_process_is_told_to_stop(
    flow: Flow, leased: Runner, a: Machine, b: Machine
) -> None:
    reconcile_until(flow, is_in("running"))
    both_hold(a, b)
    age("a", LEASE_S + 1)
    started = launcher.boot_clock()
    b.take_over()
    a.renew()
    lease = launcher.read_lease(a.root)
    assert lease is not None
    told = lease.why_stop(
        leased.name, boot=lease.boot, started=started, now=launcher.boot_clock()
    )  # fmt: skip
    assert told == "Another host serves this runner now."
    assert launcher.read_spec(a.root / leased.name, flow.pk) is None
    assert reconciler.reconcile() == 0
    Host.objects.update(held_since=hosts.database_now() - timedelta(hours=1))
    for machine in (a, b):
        machine.renew()
        assert machine.take_over() == []
    assert Runner.objects.get(pk=leased.pk).host == "b"


def test_a_renewal_in_the_last_moment_wins_over_the_takeover(
    flow: Flow, leased: Runner, a: Machine, b: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    both_hold(a, b)
    age("a", LEASE_S + 1)
    real = launcher.write_lease

    def write(root: Path, lease: Any) -> None:
        real(root, lease)
        if root == b.root:
            a.renew()

    monkeypatch.setattr(launcher, "write_lease", write)
    assert b.take_over() == []
    assert Runner.objects.get(pk=leased.pk).host == "a"


def test_a_stopped_flow_moves_nothing_until_it_is_started(
    flow: Flow, leased: Runner, a: Machine, b: Machine
) -> None:
    commands.stop_flow(flow=fresh(flow), who=WHO)
    reconciler.reconcile()
    both_hold(a, b)
    age("a", LEASE_S + 1)
    assert b.take_over() == []
    commands.start_flow(flow=fresh(flow), who=WHO)
    assert b.take_over() == [leased.name]


def test_a_flow_that_no_host_takes_over_says_why(flow: Flow, leased: Runner, b: Machine) -> None:
    runners.update_runner(runner=leased, failover_hosts="c", who=WHO)
    Runner.objects.update(is_leased=True)
    b.be()
    b.renew()
    cleanup.flag_unserved_flows(hosts={"a"})
    assert "No worker serves a" in fresh(flow).reason


def test_a_renewal_that_fails_leaves_the_file_and_is_tried_again_soon(
    leased: Runner, a: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    a.renew()
    before = launcher.read_lease(a.root)

    def refuse() -> None:
        raise DatabaseError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(hosts, "database_now", refuse)
        patch.setattr("controlplane.worker.host_lease.connections.close_all", lambda: None)
        assert LeaseThread().turn() == 1.0
    assert launcher.read_lease(a.root) == before


def test_a_turn_renews_and_waits(
    leased: Runner, a: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.worker.host_lease.connections.close_all", lambda: None)
    monkeypatch.setattr(LeaseThread, "_reconcile", lambda self: None)
    assert RENEW_S - 2 < LeaseThread().turn() <= RENEW_S
    assert Host.objects.get().name == "a"


def test_pages_and_rest_say_who_serves_what_and_why_it_moved(
    flow: Flow, leased: Runner, a: Machine, b: Machine, admin_client: Client
) -> None:
    both_hold(a, b)
    age("a", LEASE_S + 1)
    b.take_over()
    listed = admin_client.get("/api/v1/hosts/").json()
    assert [(row["name"], row["is_held"], row["runners"]) for row in listed] == [
        ("a", False, []),
        ("b", True, [leased.name]),
    ]
    told = admin_client.get(f"/api/v1/runners/{leased.name}/").json()
    assert (told["host"], told["failover_hosts"], told["moved_from"]) == ("b", "a, b", "a")
    assert "b took the runner over" in told["move_reason"]
    assert "b took the runner over" in admin_client.get(f"/runners/{leased.name}/").content.decode()
    assert "serves default" in admin_client.get("/runners/").content.decode()
    page = admin_client.get(f"/flows/{flow.pk}/", follow=True).content.decode()
    assert "It was taken over" in page
    # Who may view one flow reads of its host alone.
    ann = ensure_person(username="ann", password=None, role=Role.NONE)
    AccessGrant.objects.create(user=ann, role="viewer", scope="flow", flow=flow, created_by="x")
    admin_client.force_login(ann)
    shown = admin_client.get("/runners/").content.decode()
    assert '<dt class="name">b<' in shown
    assert '<dt class="name">a<' not in shown
    assert admin_client.get("/api/v1/hosts/").status_code == 403


def test_a_person_moves_a_runner_by_page_and_rest(
    flow: Flow, leased: Runner, a: Machine, b: Machine, admin_client: Client
) -> None:
    runners.update_runner(runner=leased, failover_hosts="", who=WHO)
    reconcile_until(flow, is_in("running"))
    for machine in (a, b):
        machine.renew()
    path = f"/api/v1/runners/{leased.name}/move/"
    refused = admin_client.post(path, {"host": "c"}, content_type="application/json")
    assert refused.status_code == 409
    assert "Hosts that the runner can move to: b." in refused.json()["error"]["message"]
    page = f"/runners/{leased.name}/"
    assert '<option value="b">' in admin_client.get(page).content.decode()
    assert admin_client.post(f"{page}move/", {"host": "b"}).status_code == 302
    leased.refresh_from_db()
    assert (leased.host, leased.move_to, leased.move_requested_by) == ("a", "b", "admin")
    assert "requested by admin" in admin_client.get(page).content.decode()
    assert a.take_over() == []
    assert b.take_over() == [leased.name]
    assert b.take_over() == []
    told = admin_client.get(f"/api/v1/runners/{leased.name}/").json()
    assert (told["host"], told["moved_from"], told["move_to"]) == ("b", "a", "")
    assert told["move_reason"] == "admin moved the runner from a to b."
    started = launcher.boot_clock() - 60
    a.renew()
    lease = launcher.read_lease(a.root)
    assert lease is not None
    assert lease.why_stop(leased.name, boot=lease.boot, started=started, now=launcher.boot_clock())
    b.be()
    reconcile_until(flow, is_in("running"))
    whos = Transition.objects.filter(subject="runner", to_state="move requested").values("who")
    assert [row["who"] for row in whos] == ["admin"]
    # A request that no host begins in two minutes is over.
    assert (
        admin_client.post(path, {"host": "a"}, content_type="application/json").status_code == 200
    )
    Runner.objects.update(move_requested_at=timezone.now() - MOVE_WITHIN)
    assert a.take_over() == []


def test_a_list_of_other_hosts_that_cannot_be_used_is_refused(leased: Runner) -> None:
    with pytest.raises(InvalidSettings) as caught:
        runners.update_runner(runner=leased, failover_hosts="b, c/d", who=WHO)
    assert "c/d cannot be used" in str(caught.value.fields["failover_hosts"])
