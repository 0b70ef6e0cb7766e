"""The end of a run: its result, and a stopped flow from which a failback can start."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from mirrors.domain.account.partition import Owed
from mirrors.domain.audit.actors import WORKER
from mirrors.domain.failover.runbook.data_loss import (
    Amount,
    every_partition,
    loss_sentence,
    owed_of,
    re_reads_sentence,
    sum_owed,
    sum_re_reads,
)
from mirrors.domain.failover.runbook.late_records import NOT_READ
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.domain.failover.verification_level import ComparisonCounts, VerificationSummary, verify
from mirrors.domain.formatting import duration, plural
from mirrors.models import FailoverRun, FailoverStep, Flow, claim
from mirrors.models.failover import FailoverState
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.services.clock import milliseconds
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook.steps.reset_groups import SET

_NAMED = 3


def end(*, run: FailoverRun, state: str, steps: Sequence[FailoverStep]) -> None:
    found: dict[str, Any] = {}
    if state == FailoverState.SUCCEEDED:
        run.refresh_from_db(fields=["counted", "counted_at"])
        outcome = _outcome(run, steps)
        found["result"] = _result(run, steps, outcome)
        reason = found["result"]["sentence"]
        verified = _verified(run, steps, outcome)
        found |= {
            "verification": verified.verification,
            "verification_reason": verified.reason,
            # Loss that is not counted yet is counted when the source responds.
            "count_due_at": None if _is_counted(run) else timezone.now(),
        }
        _leave(run)
    elif state == FailoverState.ABORTED:
        undone = [step.undo_reason for step in steps if step.undone_at]
        after = " ".join(undone) if undone else "Nothing was changed."
        reason = f"Aborted by {run.abort_asked_by}. {after}"
    else:
        trouble = next((step for step in steps if step.state == "failed"), None)
        why = trouble.reason if trouble else "It failed."
        reason = f"{why} Nothing was changed."
    lifecycle.end_run(run_id=run.pk, state=state, reason=reason, swept=True, **found)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Outcome:
    """Records not replicated and duplicates, `parts` by partition."""

    loss: Amount
    re_reads: Amount
    parts: tuple[Owed, ...]
    taken_at: int


def _outcome(run: FailoverRun, steps: Sequence[FailoverStep]) -> _Outcome:
    """Counted where the source responded, else from the last plan's figures with their age."""
    plan, by_name = run.plan or {}, {step.name: step for step in steps}
    taken_at = plan.get("taken_at") or milliseconds(timezone.now())
    parts = tuple(owed_of(row, taken_at=taken_at) for row in every_partition(plan))
    loss = sum_owed(parts)
    seen_at = by_name["read_checkpoints"].result.get("groups_seen_at")
    places = [row for row in plan.get("places", []) if row["downstream_offset"] is not None]
    is_final = run.kind == "switchover" and seen_at is None
    re_reads = sum_re_reads(places, observed_at=seen_at or taken_at, is_final=is_final)
    if run.counted is not None:
        at = None if run.counted_at is None else milliseconds(run.counted_at)
        loss = _counted(run.counted, "loss", at)
        re_reads = _counted(run.counted, "re_reads", at)
    return _Outcome(loss=loss, re_reads=re_reads, parts=parts, taken_at=taken_at)


def _counted(counted: Mapping[str, Any], name: str, at: int | None) -> Amount:
    unknown = counted[f"{name}_unknown"]
    return Amount(
        records=counted[name],
        certainty=counted[f"{name}_certainty"],
        unknown=unknown,
        unknown_text=counted[f"{name}_unknown_words"],
        observed_at=at,
    )


def _is_counted(run: FailoverRun) -> bool:
    counted = run.counted or {}
    return counted.get("loss_certainty") == counted.get("re_reads_certainty") == "counted"


def _verified(
    run: FailoverRun, steps: Sequence[FailoverStep], outcome: _Outcome
) -> VerificationSummary:
    """From what the simulation read of the same group-partitions, and which were set."""
    rows = next(step for step in steps if step.name == "reset_groups").result.get("rows", [])
    simulated = _simulated(run)
    proven = [
        row
        for row in rows
        if row["state"] in SET and simulated.get(_key(row), {}).get("verdict") == "proven"
    ]
    unsure = outcome.loss.unknown
    if outcome.loss.certainty == "at_least":
        unsure = sum(part.certainty in ("at_least", "unknown") for part in outcome.parts)
    return verify(
        ComparisonCounts(
            places=len(rows),
            proven=len(proven),
            unknown_losses=unsure,
            blockers=len(remaining_blockers(run.kind, run.plan)) if run.plan else 0,  # type: ignore[arg-type]
        )
    )


def _leave(run: FailoverRun) -> None:
    """The flow stays stopped: from now on the target has records of its own.

    After the failover of one application the flow continues with its other topics.
    """
    if run.scope:
        return
    target = run.flow.target.alias
    stopped = Flow.objects.filter(pk=run.flow_id, desired_state=DesiredState.STOPPED)
    reason = f"{run.kind.capitalize()} {run.pk} made {target} the primary; do not start this flow."
    claim(stopped, observed_state=ObservedState.FAILED_OVER, reason=reason, who=WORKER)


def _result(run: FailoverRun, steps: Sequence[FailoverStep], outcome: _Outcome) -> dict[str, Any]:
    by_name = {step.name: step for step in steps}
    plan = run.plan or {}
    rows = by_name["reset_groups"].result.get("rows", [])
    group_partitions = {_key(row): row for row in plan.get("places", [])}
    simulated = _simulated(run)
    partitions = [
        {
            "group": row["group"],
            "topic": row["topic"],
            "partition": row["partition"],
            "remote_topic": row["remote_topic"],
            "source_offset": row["source_offset"],
            "downstream_offset": row["to"],
            "state": row["state"],
            "reason": row["reason"],
            "loss": group_partitions.get(_key(row), {}).get("loss"),
            "re_reads": group_partitions.get(_key(row), {}).get("re_reads"),
            "first_record_ms": simulated.get(_key(row), {}).get("first_record_ms"),
        }
        for row in rows
    ]
    totals = {
        "loss": outcome.loss.records,
        "loss_certainty": outcome.loss.certainty,
        "loss_unknown": outcome.loss.unknown,
        "loss_observed_at": outcome.loss.observed_at,
        "re_reads": outcome.re_reads.records,
        "re_reads_certainty": outcome.re_reads.certainty,
        "re_reads_unknown": outcome.re_reads.unknown,
        "re_reads_observed_at": outcome.re_reads.observed_at,
        "moved": sum(row["state"] in SET for row in rows),
        "not_moved": sum(row["state"] not in SET for row in rows),
        "consumed": sum(one["consumed"] for one in by_name["verify_flow"].result.get("groups", [])),
        **{name: by_name["verify_flow"].result.get(name) for name in NOT_READ},
        "took_ms": _took_ms(run),
        "refused_ms": _refused_ms(by_name),
    }
    sentence = _sentence(run, totals, outcome)
    return {
        "sentence": sentence,
        "totals": totals,
        "partitions": partitions,
        "left_behind": plan.get("left_behind") or [],
    }


def _took_ms(run: FailoverRun) -> int:
    begun = run.started_at or run.created_at
    return milliseconds(timezone.now()) - milliseconds(begun)


def _refused_ms(steps: dict[str, FailoverStep]) -> int | None:
    """The time during which producers could write nowhere."""
    since = steps["fence_producers"].result.get("fenced_at")
    until = steps["redirect_producers"].ended_at
    return None if since is None or until is None else max(0, milliseconds(until) - since)


def _sentence(run: FailoverRun, totals: dict[str, Any], outcome: _Outcome) -> str:
    source, target = run.flow.source.alias, run.flow.target.alias
    who = source
    if run.scope:
        topics = sorted({row["topic"] for row in (run.plan or {}).get("partitions", ())})
        who = f"{', '.join(topics[:_NAMED])}{', …' if len(topics) > _NAMED else ''} of {source}"
    parts = [
        f"{who} failed over to {target} in {duration(totals['took_ms'])}.",
        loss_sentence(outcome.loss, source=source, now=outcome.taken_at),
        re_reads_sentence(outcome.re_reads, now=outcome.taken_at),
        f"{plural(totals['moved'], 'group-partition')} set to their offset on {target}.",
    ]
    # A decision is always named, with its author and reason.
    parts += [row["sentence"] for row in (run.plan or {}).get("left_behind") or ()]
    if totals["not_moved"]:
        parts.append(f"{totals['not_moved']:,} were not set; their rows give the reasons.")
    return " ".join(parts)


def _simulated(run: FailoverRun) -> dict[tuple[str, str, int, str], dict[str, Any]]:
    result = run.simulation.result if run.simulation else None
    return {_key(row): row for row in (result or {}).get("partitions", [])}


def _key(row: dict[str, Any]) -> tuple[str, str, int, str]:
    return row["group"], row["topic"], row["partition"], row.get("route", "")
