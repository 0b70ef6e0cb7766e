"""Leases of worker hosts: renew this host's, and take over runners of hosts whose lease ended.

One thread of the reconcile worker calls both (`controlplane/worker/host_lease.py`). Only it writes
the file of the lease. Order of writes:

- The row is committed before the file extends the lease: no runner runs longer than the database
  allows. The time that the file counts from is taken before the row is written.
- A runner is marked as leased only after the file has named it, so no host takes over a runner
  whose process does not obey the lease.
- Renewal and takeover lock the row of the old host, so only one of them happens.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypedDict

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.runners import host_drains, host_leases
from mirrors.domain.runners.host_drains import Handover
from mirrors.domain.runners.host_leases import (
    LEASE_S,
    STOP_BEFORE_END_S,
    Lease,
    LeasedRunner,
    Move,
)
from mirrors.models import Flow, Host, Job, Runner, claim
from mirrors.models.access.grants import sees_everything
from mirrors.models.audit.transitions import note
from mirrors.models.flows import DesiredState, JobState
from mirrors.models.runners import RunnerState
from mirrors.services.errors import Conflict
from mirrors.services.runners.preparations import Preparations

log = logging.getLogger(__name__)


def renew(*, root: Path, host: str, preparing: frozenset[str] = frozenset()) -> Lease:
    """Renew the lease of this host in the database, then in the file. Raises DatabaseError.

    `preparing`: runners of other hosts whose processes start here before they move.
    """
    started = launcher.boot_clock()
    confirmed = _name_in_file(root, host, started)
    with transaction.atomic():
        now = database_now()
        _renew_row(host, now)
        here = Runner.objects.filter(host=host)
        leased = set(here.exclude(failover_hosts="").values_list("name", flat=True))
        here.filter(name__in=leased & confirmed, is_leased=False).update(is_leased=True)
        here.filter(failover_hosts="", is_leased=True).update(is_leased=False)
        elsewhere = set(Runner.objects.exclude(host__in=["", host]).values_list("name", flat=True))
    lease = Lease(
        host=host,
        boot=launcher.boot_id(),
        written=started,
        ends=started + LEASE_S,
        leased=tuple(sorted(leased | preparing)),
        elsewhere=tuple(sorted(elsewhere - preparing)),
    )
    launcher.write_lease(root, lease)
    _remove_specs(root, elsewhere)
    return lease


def take_over(*, root: Path, host: str, preparations: Preparations | None = None) -> list[Move]:
    """Take over the runners that this host must take over; what moved. Raises DatabaseError.

    With `preparations`, a runner that copies meanwhile moves when its process is ready here.
    """
    due = [move for move in _due_moves() if move.to == host]
    if preparations is not None:
        preparations.keep({move.runner for move in due})
        due = [
            move for move in due
            if move.at_once or preparations.is_ready(root, move.runner)
        ]  # fmt: skip
    if not due or (lease := launcher.read_lease(root)) is None:
        return []
    names = {move.runner for move in due}
    # What an earlier stay left here.
    _remove_specs(root, names)
    launcher.write_lease(
        root,
        dataclasses.replace(
            lease,
            leased=tuple(sorted({*lease.leased, *names})),
            elsewhere=tuple(sorted({*lease.elsewhere} - names)),
        ),
    )
    with transaction.atomic():
        list(Host.objects.select_for_update().order_by("name"))
        made = [move for move in _due_moves() if move.to == host and move.runner in names]
        for move in made:
            _move(move)
    for move in made:
        log.warning("runner %s moved from %s: %s", move.runner, move.before, move.reason)
    return made


def request_move(*, runner: Runner, host: str, who: str) -> Runner:
    """Let another host take the runner over at its next turn, within seconds.

    Raises Conflict with the reason why that host cannot.
    """
    with transaction.atomic():
        locked = Runner.objects.select_for_update().get(pk=runner.pk)
        if locked.retired_at is not None:
            raise Conflict(f"The runner {locked.name} is being deleted, so it cannot move.")
        now = database_now()
        if why := host_leases.why_not_movable(
            locked.as_leased(is_needed=True, now=now), leases(), host, now
        ):
            raise Conflict(why)
        locked.move_to, locked.move_requested_by, locked.move_requested_at = host, who[:150], now
        locked.save(update_fields=["move_to", "move_requested_by", "move_requested_at"])
        note(locked, what="move requested", who=who, why=f"{locked.host or 'no host'} → {host}.")
    return locked


def drain(*, name: str, who: str) -> Host:
    """Hand the runners of a host over in order, and let it take no new ones.

    Raises Conflict if no other host could take them.
    """
    with transaction.atomic():
        rows = {row.name: row for row in Host.objects.select_for_update().order_by("name")}
        host, now = rows[name], database_now()
        if host.draining_since is not None:
            return host
        others = [row.lease for row in rows.values() if row.name != name]
        if not any(other.is_held(now) and other.draining_since is None for other in others):
            raise Conflict(
                f"No other host renews a lease and takes runners, so nothing can take over those "
                f"of {name}. Start a worker on another host first."
            )
        host.draining_since, host.draining_by = now, who[:150]
        host.save(update_fields=["draining_since", "draining_by"])
        note(host, what="drain started", who=who, why=f"{name} accepts no runner from now on.")
    return host


def end_drain(*, name: str, who: str) -> Host:
    """Let the host take runners again. Nothing moves back."""
    with transaction.atomic():
        host = Host.objects.select_for_update().get(name=name)
        if host.draining_since is not None:
            host.draining_since, host.draining_by = None, ""
            host.save(update_fields=["draining_since", "draining_by"])
            note(host, what="drain ended", who=who, why=f"{name} takes runners again.")
    return host


def preview_drain(*, name: str) -> list[Handover]:
    """What would become of each runner of the host, for the person who is about to drain it."""
    return host_drains.preview(**_facts(), name=name, now=database_now())


def takes_runners(name: str) -> bool:
    """Whether the host is not drained."""
    return not Host.objects.filter(name=name).exclude(draining_since=None).exists()


def leases() -> list[host_leases.HostLease]:
    return [row.lease for row in Host.objects.all()]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostRow:
    """A host, whether it holds its lease now, and the runners that it serves.

    While it is drained, `handovers` has what becomes of each of its runners that one may see.
    `is_drained`: all that can be handed over is, and has started on its new host; `staying` runners
    are still there. Both count all runners.
    """

    name: str
    renewed_at: datetime
    held_since: datetime
    is_held: bool
    runners: list[str]
    draining_since: datetime | None
    draining_by: str
    is_drained: bool
    staying: int
    handovers: list[Handover]


def with_runners(*, also: str = "") -> list[HostRow]:
    """Every host that was seen within a day, is drained, or still has runners; with those that one
    may see. `also`: a host that is listed in any case.

    A person who may not view everything sees only the hosts of visible runners.
    """
    if not (known := list(Host.objects.all())):
        return []
    now = database_now()
    sees_all = sees_everything()
    served: dict[str, list[str]] = {}
    for runner, host in Runner.objects.order_by("name").values_list("name", "host"):
        served.setdefault(host, []).append(runner)
    visible = {runner for names in served.values() for runner in names}
    draining = any(row.draining_since is not None for row in known)
    found: dict[str, list[Handover]] = {}
    for one in host_drains.handovers(**_facts(), now=now) if draining else []:
        found.setdefault(one.host, []).append(one)
    states = {name: [one.state for one in rows] for name, rows in found.items()}
    return [
        HostRow(
            name=row.name,
            renewed_at=row.renewed_at,
            held_since=row.held_since,
            is_held=row.lease.is_held(now),
            runners=served.get(row.name, []),
            draining_since=row.draining_since,
            draining_by=row.draining_by,
            is_drained=row.draining_since is not None and {*states.get(row.name, ())} <= {"stays"},
            staying=states.get(row.name, []).count("stays"),
            handovers=[one for one in found.get(row.name, ()) if one.runner in visible],
        )
        for row in known
        if row.name in {*served, also}
        or (sees_all and (now - row.renewed_at < timedelta(days=1) or row.draining_since))
    ]


def why_not_moved(*, host: str) -> str:
    """Why the runners of a host that is not served stay there, one sentence for each reason."""
    known, now = leases(), database_now()
    rows = Runner.objects.filter(host=host)
    told = [
        host_leases.why_not_moved(row.as_leased(is_needed=True), known, now) for row in rows
    ]  # fmt: skip
    return " ".join(dict.fromkeys(told))


def database_now() -> datetime:
    """The time of the database: one clock for all hosts."""
    if connection.vendor != "postgresql":
        return timezone.now()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (now,) = cursor.fetchone()
    return now


def _name_in_file(root: Path, host: str, now: float) -> set[str]:
    """Name new leased runners in the file before their rows say so; all names that it has."""
    lease = launcher.read_lease(root)
    if lease is None or lease.host != host or lease.boot != launcher.boot_id():
        return set()
    if lease.ends - STOP_BEFORE_END_S <= now:
        return set(lease.leased)
    rows = Runner.objects.filter(host=host).exclude(failover_hosts="")
    names = {*lease.leased, *rows.values_list("name", flat=True)}
    if names != set(lease.leased):
        launcher.write_lease(root, dataclasses.replace(lease, leased=tuple(sorted(names))))
    return names


def _renew_row(host: str, now: datetime) -> None:
    row = Host.objects.select_for_update().filter(name=host).first()
    if row is None:
        Host.objects.create(name=host, renewed_at=now, held_since=now)
        return
    if not row.lease.is_held(now):
        row.held_since = now
    row.renewed_at = now
    row.save(update_fields=["renewed_at", "held_since"])


def _due_moves() -> list[Move]:
    facts, now = _facts(), database_now()
    failed = host_leases.moves(**facts, now=now)
    return failed + host_drains.moves(**facts, now=now)


class _Facts(TypedDict):
    hosts: list[host_leases.HostLease]
    runners: list[LeasedRunner]


def _facts() -> _Facts:
    """All hosts, and all runners that have one, also those that a person cannot see."""
    now = database_now()
    rows = list(Runner._base_manager.exclude(host=""))
    open_jobs = set(Job._base_manager.filter(ended_at=None).values_list("runner", flat=True))
    asked = Flow._base_manager.exclude(desired_state=DesiredState.STOPPED)
    needed = open_jobs | set(asked.values_list("runner", flat=True))
    runners = [row.as_leased(is_needed=row.pk in needed, now=now) for row in rows]
    return {"hosts": leases(), "runners": runners}


def _move(move: Move) -> None:
    """Give the runner to the new host: its jobs end as lost, and the next pass opens new ones."""
    row = Runner.objects.select_for_update().get(name=move.runner)
    moved: dict[str, Any] = {
        "host": move.to,
        "pid": None,
        "start_tick": None,
        "failed_starts": 0,
        "is_leased": True,
        "moved_at": timezone.now(),
        "moved_from": move.before,
        "move_reason": move.reason,
        "move_to": "",
        "move_requested_at": None,
        "memory": {},
        "rss_bytes": None,
        "slots_used": None,
    }
    rows = Runner.objects.filter(pk=row.pk, host=move.before)
    if row.state in {RunnerState.ABSENT, RunnerState.LOST}:
        rows.update(**moved, reason=move.reason)
    else:
        claim(rows, state=RunnerState.LOST, reason=move.reason, who=RECONCILER, changes=moved)
    words = f"{move.before} → {move.to}. {move.reason}"
    note(row, what="moved", who=RECONCILER, why=words)
    for job in Job.objects.filter(runner=row, ended_at=None):
        claim(
            Job.objects.filter(pk=job.pk, ended_at=None),
            state=JobState.LOST,
            reason=move.reason,
            who=RECONCILER,
            changes={"ended_at": timezone.now()},
        )
    for flow in row.flows.exclude(desired_state=DesiredState.STOPPED):
        note(flow, what="moved", who=RECONCILER, why=f"Runner {row.name}: {words}")


def _remove_specs(root: Path, runners: Iterable[str]) -> None:
    """Remove spec files of runners that other hosts serve, so that no later start reads them."""
    for name in runners:
        for path in (root / name / launcher.FLOWS_DIR).glob("*.spec.json"):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()


def this_host() -> tuple[Path, str]:
    """The directory of this host's runners, and its name."""
    return Path(settings.RUNNER_ROOT), settings.UNDERSTUDY_HOST
