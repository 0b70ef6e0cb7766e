"""Rebuilds an empty database from a standby cluster: flows, plans, the run index.

Restored flows are stopped: after a disaster a person decides whether a flow may write to its target
again. Then it resumes at its positions, which are on the target as well.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import on_one_line
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.standby.flow_definition import read_flow, references_of
from mirrors.domain.standby.records import BackupRecord, from_records, is_backup_topic
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import read_to_end
from mirrors.models import (
    Cluster,
    FailoverRun,
    FailoverStep,
    Flow,
    FlowPlan,
    PartitionMap,
    RunBlock,
    Runner,
)
from mirrors.models.failover import FailoverKind
from mirrors.models.flows import DesiredState
from mirrors.models.sync import PlanState
from mirrors.services.clock import Budget, moment
from mirrors.services.clusters import changed_fields, create_cluster
from mirrors.services.drills.certificates.signing_key import trusted_keys
from mirrors.services.errors import Conflict
from mirrors.services.flows.settings import create_flow
from mirrors.services.offsets.run_index import refresh_index

CLIENT_ID = "understudy-rebuild"
DEADLINE_S = 60.0
_RESTORED_STOPPED = "Restored from {target}, stopped. Its desired state in the backup is {desired}."


@dataclasses.dataclass(frozen=True, kw_only=True)
class RestoreResult:
    """The restored flows, and sentences for the person who restores."""

    flows: tuple[str, ...]
    sentences: tuple[str, ...]


def rebuild(
    *,
    spec: ClusterSpec,
    who: str,
    merge: bool = False,
    start: bool = False,
    deadline_s: float = DEADLINE_S,
    public_keys: Sequence[str] = (),
    confirm: Callable[[list[str]], bool] | None = None,
) -> RestoreResult:
    """Restore every flow in the backup on this cluster; refused with existing rows, unless `merge`.

    Records count only with the signature of a trusted key: this host's, one that this database
    knows, or one of `public_keys` (hex). `confirm` gets a line for each new cluster, with its
    addresses and references, and for each flow; False restores nothing. Existing rows are never
    changed. `start` starts the flows that ran at the time of the backup.
    """
    if not merge:
        _refuse_full(spec)
    budget = Budget(deadline_s)
    kept, said = _read(spec, budget, trusted_keys(public_keys))
    if not kept and said:
        raise UnderstudyError(
            f"The backup on {spec.alias} at {spec.bootstrap_servers} has nothing that can be "
            f"restored. {' '.join(said)}",
            code="nothing",
        )
    if not kept:
        raise UnderstudyError(
            f"{spec.alias} at {spec.bootstrap_servers} has no backup: it has no topic "
            "mm2-flow.<source>.internal with a flow in it. Name the target cluster of the flows: "
            "they write their backup there once a minute.",
            code="nothing",
        )
    if confirm is not None and not confirm(_restored_rows(kept)):
        raise UnderstudyError("Not confirmed: nothing was restored.", code="not_confirmed")
    flows = []
    for name in sorted({row.flow for row in kept}):
        bodies = {row.kind: row.body for row in kept if row.flow == name}
        try:
            flow = _restore(name, bodies, who=who, start=start, said=said)
        except UnderstudyError as error:
            said.append(f"{name} is not restored: {error.message}")
            continue
        flows.append(flow)
    for flow in flows:
        said.append(_fill_index(flow, budget))
    return RestoreResult(flows=tuple(flow.name for flow in flows), sentences=tuple(said))


def _restored_rows(kept: list[BackupRecord]) -> list[str]:
    """What would be created: each address that gets a login, and each reference to a secret."""
    found: dict[str, None] = {}
    for row in kept:
        if row.kind != "flow":
            continue
        try:
            flow = read_flow(row.body)
        except ValueError:
            continue
        for spec in (flow.source, flow.target):
            if not Cluster.objects.filter(alias=spec.alias).exists():
                secrets = [text for text in references_of(spec).values() if text]
                login = f"{spec.security_protocol} {spec.sasl_username}".strip()
                words = f"cluster {spec.alias} at {spec.bootstrap_servers} ({login})"
                found[f"{words}, references: {', '.join(secrets) or 'none'}"] = None
        at = moment(row.written_at).isoformat(sep=" ", timespec="seconds")
        found[f"flow {flow.name}, signed {at}"] = None
    return sorted(map(on_one_line, found))


def _refuse_full(spec: ClusterSpec) -> None:
    flows = Flow.objects.count()
    clusters = Cluster.objects.exclude(alias=spec.alias).count()
    if flows or clusters:
        raise Conflict(
            f"This database is not empty: it has {flows} flows and {clusters} other clusters. "
            "Nothing was read or changed. Use --merge to add what is missing without changing "
            "existing rows, or point DATABASE_URL at an empty database.",
            code="not_empty",
        )


def _read(
    spec: ClusterSpec, budget: Budget, keys: Mapping[str, str]
) -> tuple[list[BackupRecord], list[str]]:
    kept: list[BackupRecord] = []
    said: list[str] = []
    with Admin(spec, client_id=CLIENT_ID) as admin:
        seen = admin.snapshot(now=0, deadline_s=budget.left_s, with_configs=False)
        for topic in sorted(filter(is_backup_topic, seen.topics)):
            records = read_to_end(admin, topic, deadline_s=budget.left_s)
            found, trouble = from_records(
                ((record.key, record.value) for record in records), keys=keys
            )
            kept += found
            said += [f"In {topic}: {sentence}" for sentence in trouble]
    return kept, said


def _restore(
    name: str, bodies: dict[str, dict[str, Any]], *, who: str, start: bool, said: list[str]
) -> Flow:
    if "flow" not in bodies:
        raise UnderstudyError("the backup lacks its settings.")
    try:
        kept = read_flow(bodies["flow"])
    except ValueError as error:
        raise UnderstudyError(f"{error}.") from None
    if kept.name != name:
        raise UnderstudyError(f"its record describes {kept.name}.")
    with transaction.atomic():
        source, target = (_cluster(one, who, said) for one in (kept.source, kept.target))
        desired = DesiredState.STOPPED
        if start and kept.desired == DesiredState.RUNNING:
            desired = DesiredState.RUNNING
        flow = create_flow(
            source=source,
            target=target,
            properties=kept.properties,
            backup=kept.properties,
            runner=Runner.objects.filter(name=kept.runner).first(),
            desired_state=desired,
            who=who,
        )
        if desired == DesiredState.STOPPED:
            words = _RESTORED_STOPPED.format(target=target.alias, desired=kept.desired or "stopped")
            Flow.objects.filter(pk=flow.pk).update(reason=words)
        if kept.runner not in ("", flow.runner.name):
            said.append(
                f"{name} ran in the runner {kept.runner}, which is not registered here; it gets "
                f"the runner {flow.runner.name}."
            )
        _plan(flow, bodies.get("plan"))
        _simulation(flow, bodies.get("simulation"))
    return flow


def _cluster(spec: ClusterSpec, who: str, said: list[str]) -> Cluster:
    known = Cluster.objects.filter(alias=spec.alias).first()
    if known is None:
        return create_cluster(spec=spec, who=who)
    if changed := changed_fields(cluster=known, spec=spec):
        sentence = (
            f"{spec.alias} is registered here with another {', '.join(changed)} than in the "
            "backup; it is not changed."
        )
        if sentence not in said:
            said.append(sentence)
    return known


def _plan(flow: Flow, body: dict[str, Any] | None) -> None:
    if body is None:
        return
    now = timezone.now()
    FlowPlan.objects.create(
        flow=flow,
        state=PlanState.READY,
        reason="From the backup on the target; a worker plans again soon.",
        digest=str(body.get("digest", ""))[:64],
        changes=_list(body.get("changes")),
        left_out=_list(body.get("left_out")),
        codes=_object(body.get("codes")),
        since=now,
        as_of=now,
    )


def _simulation(flow: Flow, body: dict[str, Any] | None) -> None:
    """The run as it ended. Its temporary groups were deleted, or a sweep deletes them."""
    ended = _time(body, "ended_at")
    if body is None or ended is None or body.get("state") not in ("succeeded", "failed", "aborted"):
        return
    run = FailoverRun.objects.create(
        flow=flow,
        kind=FailoverKind.SIMULATION,
        state=body["state"],
        reason=str(body.get("reason", "")),
        since=ended,
        groups=_list(body.get("groups")),
        why=str(body.get("why", ""))[:500],
        requested_by=str(body.get("requested_by", ""))[:150],
        mark=str(body.get("mark", ""))[:16],
        plan=_object(body.get("plan")),
        result=_object(body.get("result")),
        started_at=_time(body, "started_at"),
        ended_at=ended,
        swept_at=ended,
    )
    FailoverRun.objects.filter(pk=run.pk).update(created_at=_time(body, "created_at") or ended)
    FailoverStep.objects.bulk_create(
        FailoverStep(
            run=run,
            number=number,
            name=str(step.get("name", ""))[:32],
            does=str(step.get("does", ""))[:200],
            state=str(step.get("state", ""))[:16],
            reason=str(step.get("reason", "")),
        )
        for number, step in enumerate(_list(body.get("steps")), start=1)
        if isinstance(step, dict)
    )


def _fill_index(flow: Flow, budget: Budget) -> str:
    try:
        refresh_index(flow=flow, deadline_s=budget.left_s)
    except UnderstudyError as error:
        return f"{flow.name} is restored; its run index is filled later: {error.message}"
    places = PartitionMap.objects.filter(flow=flow, position__isnull=False).count()
    blocks = RunBlock.objects.filter(map__flow=flow).count()
    return f"{flow.name} is restored, with the positions of {places} partitions, {blocks} blocks."


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _time(body: dict[str, Any] | None, name: str) -> datetime | None:
    text = (body or {}).get(name)
    return parse_datetime(text) if isinstance(text, str) else None
