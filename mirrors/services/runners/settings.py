"""Runners: register, change, delete. `processes` supervises their processes."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.runners.host_leases import hosts_of
from mirrors.domain.states.runners import RUNS, RunnerState
from mirrors.models import Runner
from mirrors.models.audit.transitions import note
from mirrors.models.flows import ObservedState
from mirrors.services.errors import Conflict
from mirrors.services.process_liveness import is_served

# Its process has them from its start.
_OF_ITS_START = frozenset({"master", "spark_ui", "event_log"})
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOSTS = re.compile(r"\*|[A-Za-z0-9._-]{1,253}")
_HOST = re.compile(r"[A-Za-z0-9._-]{0,253}")
# A directory, or an address without a login in it.
_EVENT_LOG = re.compile(r"(/[^\s\0]*|[a-z][a-z0-9+.-]*:/[^\s\0@?]*)?")
_MASTER = re.compile(
    r"local(\[(0*[1-9]\d{0,4}|\*)(,\s*\d{1,3})?\])?|spark://[\w.\-]+:\d{1,5}(,[\w.\-]+:\d{1,5})*"
    r"|yarn|k8s://[\w.\-:/\[\]]+"
)


def create_runner(
    *,
    name: str,
    master: str,
    slots: int | None = None,
    host: str = "",
    failover_hosts: str = "",
    pool: str = "",
    auto_balance: bool = False,
    spark_ui: bool = False,
    event_log: str = "",
    who: str,
) -> Runner:
    """Register a runner; it is started when the first flow needs it.

    - `failover_hosts`: names of hosts that may take it over, with commas; `*` for every host.
    - `pool`: runners with the same name here share their flows. `auto_balance`: without a person.
    - `event_log`: where Spark writes its event log; empty for none.
    """
    _validate(
        name=name,
        master=master,
        slots=slots,
        host=host,
        failover_hosts=failover_hosts,
        event_log=event_log,
        pool=pool,
        auto_balance=auto_balance,
    )
    try:
        with transaction.atomic():
            runner = Runner.objects.create(
                name=name,
                master=master,
                slots=slots or slots_of(master),
                host=host,
                failover_hosts=", ".join(hosts_of(failover_hosts)),
                pool=pool,
                auto_balance=auto_balance,
                spark_ui=spark_ui,
                event_log=event_log,
            )
            note(runner, what="created", who=who, why=f"Master {master}.")
    except IntegrityError:
        raise Conflict(f"A runner named {name} is already registered.") from None
    return runner


def update_runner(
    *,
    runner: Runner,
    master: str | None = None,
    slots: int | None = None,
    host: str | None = None,
    failover_hosts: str | None = None,
    pool: str | None = None,
    auto_balance: bool | None = None,
    spark_ui: bool | None = None,
    event_log: str | None = None,
    who: str,
) -> Runner:
    """Change a runner. Another master, UI or event log needs a new process; its flows resume at
    their commits."""
    with transaction.atomic():
        locked = Runner.objects.select_for_update().get(pk=runner.pk)
        changed = _changes(
            locked,
            master=master,
            slots=slots,
            host=host,
            failover_hosts=failover_hosts,
            pool=pool,
            auto_balance=auto_balance,
            spark_ui=spark_ui,
            event_log=event_log,
        )
        if not changed:
            return locked
        before = {name: getattr(locked, name) for name in changed}
        for name, value in changed.items():
            setattr(locked, name, value)
        locked.save(update_fields=list(changed))
        # Failures under the old settings need no backoff.
        locked.flows.filter(observed_state=ObservedState.BACKING_OFF).update(
            forgiven_at=timezone.now(), retry_at=None, attempt=0
        )
        words = [
            f"{name}: {before[name] or 'not set'} → {changed[name] or 'not set'}"
            for name in changed
        ]
        note(locked, what="edited", who=who, why="; ".join(words))
    return locked


def _changes(
    runner: Runner,
    *,
    master: str | None,
    slots: int | None,
    host: str | None,
    failover_hosts: str | None,
    pool: str | None,
    auto_balance: bool | None,
    spark_ui: bool | None,
    event_log: str | None,
) -> dict[str, Any]:
    """The fields that an edit changes; raises why it is refused."""
    wanted: dict[str, Any] = {"master": master, "slots": slots, "host": host}
    wanted |= {"spark_ui": spark_ui, "event_log": event_log}
    wanted |= {"pool": pool, "auto_balance": auto_balance}
    if failover_hosts is not None:
        wanted["failover_hosts"] = ", ".join(hosts_of(failover_hosts))
    changed = {
        name: value
        for name, value in wanted.items()
        if value is not None and value != getattr(runner, name)
    }
    if changed:
        _validate(
            name=runner.name,
            master=master or runner.master,
            slots=slots,
            host=host or "",
            failover_hosts=failover_hosts or "",
            event_log=event_log or "",
            pool=changed.get("pool", runner.pool),
            auto_balance=changed.get("auto_balance", runner.auto_balance),
        )
    if "host" in changed and runner.state in RUNS and is_served(runner.host):
        raise Conflict(
            f"The runner {runner.name} is running on {runner.host}. Stop its flows and the "
            "runner there before you move it."
        )
    return changed


def delete_runner(*, runner: Runner, who: str) -> bool:
    """Delete a runner without flows; False while its process ends first.

    The worker on its host ends the process, then removes the row (`finish_deletion`). If no
    worker serves the host, the row is removed at once: nothing could end the process from here.
    """
    with transaction.atomic():
        locked = Runner.objects.select_for_update().get(pk=runner.pk)
        flows = [flow.name for flow in locked.flows.select_related("source", "target")]
        if flows:
            raise Conflict(
                f"The runner {locked.name} hosts {', '.join(flows)}. Move or delete "
                f"{'that flow' if len(flows) == 1 else 'those flows'} first."
            )
        if locked.jobs.filter(ended_at=None).exists():
            raise Conflict(
                f"A job still runs on the runner {locked.name}. Wait until it has ended."
            )
        if locked.state in {*RUNS, RunnerState.STOPPING} and is_served(locked.host):
            locked.retired_at, locked.retired_by = timezone.now(), who[:150]
            locked.save(update_fields=["retired_at", "retired_by"])
            return False
        _delete(locked, who)
    return True


def finish_deletion(*, runner: Runner) -> None:
    """Remove a retired runner whose process has ended."""
    with transaction.atomic():
        locked = Runner.objects.select_for_update().filter(pk=runner.pk).first()
        if locked is not None and locked.retired_at is not None and not locked.flows.exists():
            _delete(locked, locked.retired_by)


def _delete(runner: Runner, who: str) -> None:
    note(runner, what="deleted", who=who, why="")
    runner.delete()


def check_not_retired(runner: Runner | None) -> None:
    if runner is not None and runner.retired_at is not None:
        raise Conflict(
            f"The runner {runner.name} is being deleted, so no flow can use it. Choose another."
        )


def restarts_of_update(
    *,
    runner: Runner,
    master: str | None = None,
    slots: int | None = None,
    host: str | None = None,
    failover_hosts: str | None = None,
    pool: str | None = None,
    auto_balance: bool | None = None,
    spark_ui: bool | None = None,
    event_log: str | None = None,
) -> list[str]:
    """What an edit restarts, one sentence each; raises what `update_runner` would raise."""
    changed = _changes(
        runner,
        master=master,
        slots=slots,
        host=host,
        failover_hosts=failover_hosts,
        pool=pool,
        auto_balance=auto_balance,
        spark_ui=spark_ui,
        event_log=event_log,
    )
    if not changed.keys() & _OF_ITS_START or runner.state == RunnerState.ABSENT:
        return []
    flows = [flow.name for flow in runner.flows.select_related("source", "target")]
    copying = (
        f" {', '.join(flows)} stop at a commit and resume in the new process." if flows else ""
    )
    on = changed.get("master", runner.master)
    return [f"Runner {runner.name}: its process stops and starts again on {on}.{copying}"]


def ensure_default_runner(*, who: str) -> Runner:
    """The runner of flows that name none, created from the settings when first needed."""
    runner, created = Runner.objects.get_or_create(
        name=settings.UNDERSTUDY_RUNNER_NAME,
        defaults={
            "master": settings.UNDERSTUDY_RUNNER_MASTER,
            "slots": slots_of(settings.UNDERSTUDY_RUNNER_MASTER),
        },
    )
    if created:
        note(runner, what="created", who=who, why="The first flow needs a runner.")
    elif runner.retired_at is not None:
        runner.retired_at = None
        runner.save(update_fields=["retired_at"])
    return runner


def slots_of(master: str) -> int:
    found = re.match(r"local\[(\d+)", master)
    return int(found[1]) if found else settings.UNDERSTUDY_RUNNER_SLOTS


def _validate(
    *,
    name: str,
    master: str,
    slots: int | None,
    host: str,
    failover_hosts: str,
    event_log: str,
    pool: str,
    auto_balance: bool,
) -> None:
    errors: dict[str, list[str]] = {}
    if not _NAME.fullmatch(name):
        errors["name"] = [
            "A runner's name is 1 to 63 letters, digits, dashes or underscores, "
            "and begins with a letter or digit."
        ]
    if not _MASTER.fullmatch(master):
        errors["master"] = [
            f"{master!r} is not a Spark master: use local[256,4], spark://host:7077, yarn or "
            "k8s://host:port."
        ]
    if not _HOST.fullmatch(host):
        errors["host"] = [
            "A host is the name under which a worker runs: letters, digits, dots, dashes, "
            "underscores."
        ]
    wrong = [word for word in hosts_of(failover_hosts) if not _HOSTS.fullmatch(word)]
    if wrong or len(failover_hosts) > 1000:
        errors["failover_hosts"] = [
            f"{wrong[0] if wrong else 'The list'} cannot be used: give names of hosts that run a "
            "worker, with commas between them, or * for every host. At most 1000 characters."
        ]
    if len(event_log) > 500 or not _EVENT_LOG.fullmatch(event_log):
        errors["event_log"] = [
            "Give an absolute directory on the runner's host, or an address such as "
            "hdfs://namenode/spark-logs, without a login; at most 500 characters, no spaces."
        ]
    if pool and not _NAME.fullmatch(pool):
        errors["pool"] = [
            "The name of a pool is 1 to 63 letters, digits, dashes or underscores, and begins with "
            "a letter or digit."
        ]
    if auto_balance and not pool:
        errors["auto_balance"] = [
            "Flows can move automatically only between runners of a pool. Name a pool."
        ]
    if slots is not None and not 1 <= slots <= 100_000:
        errors["slots"] = ["A runner has 1 to 100000 slots."]
    if errors:
        raise InvalidSettings(errors)
