"""Flows: create, change, remove, and say what they should do. The reconciler makes it so."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from mirrors.domain.bandwidth import is_live_edit
from mirrors.domain.conflicts import check_flow
from mirrors.domain.edits import first_edit
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.policy import policy_for
from mirrors.domain.specs import FlowSpec
from mirrors.models import Cluster, Flow, Job, Runner, claim
from mirrors.models.edits import keep_edit
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.models.transitions import note, record
from mirrors.services.errors import Conflict
from mirrors.services.runners import ensure_default_runner


@dataclasses.dataclass(frozen=True, kw_only=True)
class EditPreview:
    """What an edit changes, what it will restart, and what one should know before."""

    changes: tuple[dict[str, str | None], ...]
    restarts: tuple[str, ...]
    warnings: tuple[str, ...]


def create_flow(
    *,
    source: Cluster,
    target: Cluster,
    properties: Mapping[str, str],
    runner: Runner | None = None,
    desired_state: str = DesiredState.RUNNING,
    who: str,
) -> Flow:
    """A new flow. Refused with a sentence per key when it could not work or would do harm."""
    with transaction.atomic():
        _lock_pairs()
        spec, warnings = _checked(source, target, properties)
        flow = Flow.objects.create(
            source=source,
            target=target,
            runner=runner or ensure_default_runner(who=who),
            properties=spec.properties,
            desired_state=desired_state,
            reason="" if desired_state == DesiredState.STOPPED else "Waiting for the reconciler.",
            warnings=warnings,
        )
        record(flow, field="desired_state", before="", who=who, why="Created.")
        keep_edit(flow, first_edit(spec.properties), who=who)
    return flow


def preview_update(
    *, flow: Flow, properties: Mapping[str, str] | None = None, runner: Runner | None = None
) -> EditPreview:
    """What `update_flow` with the same arguments would do; raises what it would raise."""
    after = dict(flow.properties if properties is None else properties)
    spec, warnings = _checked(flow.source, flow.target, after, itself=flow)
    warnings += _renames(flow, spec)
    changes = _changes(flow, after, runner)
    restarts: list[str] = []
    open_job = Job.objects.filter(flow=flow, ended_at__isnull=True).exists()
    is_live = runner is None and is_live_edit(flow.properties, after)
    if changes and not is_live and (open_job or flow.desired_state != DesiredState.STOPPED):
        keys = ", ".join(str(change["key"]) for change in changes)
        moved = runner is not None and runner.pk != flow.runner_id
        restarts.append(
            f"{flow.name}: its job ends at a commit and a new one starts in the runner "
            f"{runner.name}; no record is lost or repeated."
            if moved and runner is not None
            else f"{flow.name}: its slices end at a commit and start again with the new {keys}; "
            "no record is lost or repeated."
        )
    return EditPreview(changes=changes, restarts=tuple(restarts), warnings=tuple(warnings))


def update_flow(
    *,
    flow: Flow,
    properties: Mapping[str, str] | None = None,
    runner: Runner | None = None,
    who: str,
) -> Flow:
    """Change settings or runner. Takes effect at a commit; `generation` tells when it has."""
    with transaction.atomic():
        _lock_pairs()
        locked = _locked(flow)
        after = dict(locked.properties if properties is None else properties)
        spec, warnings = _checked(locked.source, locked.target, after, itself=locked)
        changes = _changes(locked, after, runner)
        if not changes:
            return locked
        locked.properties = spec.properties
        locked.warnings = warnings
        locked.runner = runner or locked.runner
        locked.generation += 1
        _forgive(locked)
        locked.save(update_fields=["properties", "warnings", "runner", "generation"])
        keep_edit(locked, changes, who=who)
        words = [f"{item['key']}: {item['before']} → {item['after']}" for item in changes]
        note(locked, what=f"generation {locked.generation}", who=who, why="; ".join(words))
    return locked


def delete_flow(*, flow: Flow, who: str) -> None:
    """Remove a flow that is at rest. What it copied stays, and so do its positions."""
    with transaction.atomic():
        locked = _locked(flow)
        copying = Job.objects.filter(flow=locked, ended_at__isnull=True).exists()
        if copying or locked.desired_state != DesiredState.STOPPED:
            raise Conflict(
                f"{locked.name} is not stopped. Stop it, wait until it is, then remove it."
            )
        note(locked, what="deleted", who=who, why="")
        locked.delete()


def start_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Run, and forget earlier failures: a flow that is backing off is tried at once."""
    waiting = {ObservedState.BACKING_OFF, ObservedState.FAILED}
    if flow.desired_state == DesiredState.RUNNING and flow.observed_state not in waiting:
        raise Conflict(
            f"{flow.name} was started already: it is {_word(flow.observed_state)} since "
            f"{flow.since:%Y-%m-%d %H:%M:%S} UTC."
        )
    with transaction.atomic():
        _lock_pairs()
        locked = _locked(flow)
        _checked(locked.source, locked.target, locked.properties, itself=locked)
        _forgive(locked)
        return _ask(locked, DesiredState.RUNNING, who, why or "Started.")


def pause_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Copy nothing, keep the place in the runner: to go on takes a second."""
    with transaction.atomic():
        locked = _locked(flow)
        if locked.desired_state == DesiredState.STOPPED:
            raise Conflict(f"{locked.name} is stopped, so there is nothing to pause.")
        return _ask(locked, DesiredState.PAUSED, who, why or "Paused.")


def resume_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    with transaction.atomic():
        locked = _locked(flow)
        if locked.desired_state == DesiredState.STOPPED:
            raise Conflict(f"{locked.name} is stopped, not paused. Start it instead.")
        return _ask(locked, DesiredState.RUNNING, who, why or "Resumed.")


def stop_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Commit and leave the runner. Starting again goes on where it stopped."""
    with transaction.atomic():
        return _ask(_locked(flow), DesiredState.STOPPED, who, why or "Stopped.")


def restart_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """End the job at a commit and start another."""
    with transaction.atomic():
        locked = _locked(flow)
        if locked.desired_state == DesiredState.STOPPED:
            raise Conflict(f"{locked.name} is stopped. Start it instead.")
        locked.restarts += 1
        _forgive(locked)
        locked.save(update_fields=["restarts"])
        note(locked, what="restart", who=who, why=why or "Restarted.")
    return locked


def reverse_flow(*, flow: Flow, who: str, why: str = "") -> Flow:
    """Stop this flow and run the one in the other direction, made with the same settings."""
    with transaction.atomic():
        _lock_pairs()
        locked = _locked(flow)
        reason = why or f"Reversed {locked.name}."
        _ask(locked, DesiredState.STOPPED, who, reason)
        other = Flow.objects.filter(source=locked.target, target=locked.source).first()
        if other is None:
            return create_flow(
                source=locked.target,
                target=locked.source,
                properties=locked.properties,
                runner=locked.runner,
                who=who,
            )
        _checked(other.source, other.target, other.properties, itself=other)
        return _ask(_locked(other), DesiredState.RUNNING, who, reason)


def _forgive(flow: Flow) -> None:
    """A person acted: what failed before counts no more, and nothing waits for a next try."""
    flow.forgiven_at, flow.retry_at, flow.attempt = timezone.now(), None, 0
    flow.save(update_fields=["forgiven_at", "retry_at", "attempt"])


def _ask(flow: Flow, desired: str, who: str, why: str) -> Flow:
    """Change the desired state; asking for what is asked already changes nothing."""
    if flow.desired_state != desired:
        row = Flow.objects.filter(pk=flow.pk, desired_state=flow.desired_state)
        claim(row, desired_state=desired, reason=why, who=who)
    flow.refresh_from_db()
    return flow


def _checked(
    source: Cluster, target: Cluster, properties: Mapping[str, str], itself: Flow | None = None
) -> tuple[FlowSpec, list[str]]:
    """The spec and its warnings, judged beside all flows that are not at rest."""
    if source.pk == target.pk:
        sentence = f"A flow needs two clusters; {source.alias} is both source and target."
        raise InvalidSettings({"target": [sentence]})
    spec = FlowSpec.build(source=source.spec, target=target.spec, properties=dict(properties))
    others = Flow.objects.select_related("source", "target")
    if itself is not None:
        others = others.exclude(pk=itself.pk)
    elif others.filter(source=source, target=target).exists():
        raise Conflict(f"A flow {source.alias}->{target.alias} exists already. Change that one.")
    active = others.exclude(desired_state=DesiredState.STOPPED)
    ids = dict(Cluster.objects.values_list("alias", "cluster_id"))
    return spec, check_flow(spec, [other.spec for other in active], ids)


def _changes(
    flow: Flow, after: Mapping[str, str], runner: Runner | None
) -> tuple[dict[str, str | None], ...]:
    before: dict[str, str] = flow.properties
    found: list[dict[str, Any]] = [
        {"key": key, "before": before.get(key), "after": after.get(key)}
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]
    if runner is not None and runner.pk != flow.runner_id:
        found.append({"key": "runner", "before": flow.runner.name, "after": runner.name})
    return tuple(found)


def _renames(flow: Flow, after: FlowSpec) -> list[str]:
    """What an edit does to remote topics that are there already."""
    old, new = (
        policy_for(spec.settings, spec.source.alias, spec.target.alias).remote_topic("orders")
        for spec in (flow.spec, after)
    )
    if old == new or not Job.objects.filter(flow=flow).exists():
        return []
    return [
        f"Remote topics get other names ({old} becomes {new}). What was copied stays under the "
        "old names, and every partition copied so far stops there: its position belongs to the "
        "old topic. To begin again under the new names, take the positions away first."
    ]


def _lock_pairs() -> None:
    """One creation, edit or start at a time, or two flows could each pass and loop together."""
    list(Cluster.objects.select_for_update().order_by("pk").values_list("pk", flat=True))


def _locked(flow: Flow) -> Flow:
    # Without `of`, PostgreSQL would lock clusters and runner too.
    rows = Flow.objects.select_related("source", "target", "runner")
    return rows.select_for_update(of=("self",)).get(pk=flow.pk)


def _word(state: str) -> str:
    return state.replace("_", " ")
