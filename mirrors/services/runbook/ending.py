"""The end of a run: its result, and the flow left so that the way back can follow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from mirrors.domain.figures import duration, plural
from mirrors.models import FailoverRun, FailoverStep, Flow, claim
from mirrors.models.failovers import FailoverState
from mirrors.models.flows import DesiredState, ObservedState
from mirrors.services.clock import milliseconds
from mirrors.services.failover import failovers
from mirrors.services.runbook.groups import SET
from mirrors.services.work import WORKER


def end(*, run: FailoverRun, state: str, steps: Sequence[FailoverStep]) -> None:
    found: dict[str, Any] = {}
    if state == FailoverState.SUCCEEDED:
        found["result"] = _result(run, steps)
        reason = found["result"]["sentence"]
        _leave(run)
    elif state == FailoverState.ABORTED:
        undone = [step.undo_reason for step in steps if step.undone_at]
        after = " ".join(undone) if undone else "Nothing had been changed."
        reason = f"Aborted by {run.abort_asked_by}. {after}"
    else:
        trouble = next((step for step in steps if step.state == "failed"), None)
        why = trouble.reason if trouble else "It failed."
        reason = f"{why} Nothing had been changed."
    failovers.end_run(run_id=run.pk, state=state, reason=reason, swept=True, **found)


def _leave(run: FailoverRun) -> None:
    """The flow stays stopped: what the target holds from now on is its own."""
    target = run.flow.target.alias
    stopped = Flow.objects.filter(pk=run.flow_id, desired_state=DesiredState.STOPPED)
    reason = (
        f"{run.kind.capitalize()} {run.pk} made {target} the place to work; start no copy here."
    )
    claim(stopped, observed_state=ObservedState.FAILED_OVER, reason=reason, who=WORKER)


def _result(run: FailoverRun, steps: Sequence[FailoverStep]) -> dict[str, Any]:
    by_name = {step.name: step for step in steps}
    plan = run.plan or {}
    rows = by_name["reset_groups"].result.get("rows", [])
    places = {_key(place): place for place in plan.get("places", [])}
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
            "loss": places.get(_key(row), {}).get("loss"),
            "re_reads": places.get(_key(row), {}).get("re_reads"),
            "first_record_ms": simulated.get(_key(row), {}).get("first_record_ms"),
        }
        for row in rows
    ]
    totals = {
        "loss": plan.get("loss"),
        "re_reads": plan.get("re_reads"),
        "moved": sum(row["state"] in SET for row in rows),
        "not_moved": sum(row["state"] not in SET for row in rows),
        "consumed": sum(one["consumed"] for one in by_name["verify_flow"].result.get("groups", [])),
        "written_on_source": by_name["verify_flow"].result.get("written_on_source"),
        "took_ms": _took_ms(run),
        "refused_ms": _refused_ms(by_name),
    }
    return {"sentence": _sentence(run, totals), "totals": totals, "partitions": partitions}


def _took_ms(run: FailoverRun) -> int:
    begun = run.started_at or run.created_at
    return milliseconds(timezone.now()) - milliseconds(begun)


def _refused_ms(steps: dict[str, FailoverStep]) -> int | None:
    """From when producers were refused until they had somewhere to write."""
    since = steps["fence_producers"].result.get("fenced_at")
    until = steps["redirect_producers"].ended_at
    return None if since is None or until is None else max(0, milliseconds(until) - since)


def _sentence(run: FailoverRun, totals: dict[str, Any]) -> str:
    source, target = run.flow.source.alias, run.flow.target.alias
    lost = "An unknown number of records" if totals["loss"] is None else _records(totals["loss"])
    parts = [
        f"{source} handed over to {target} in {duration(totals['took_ms'])}.",
        f"{lost} {'was' if totals['loss'] == 1 else 'were'} lost.",
        f"{plural(totals['moved'], 'place')} of groups stand at their exact offset.",
    ]
    if totals["not_moved"]:
        parts.append(f"{totals['not_moved']:,} were not set; the rows say why.")
    return " ".join(parts)


def _records(amount: int) -> str:
    return "No records" if amount == 0 else plural(amount, "record")


def _simulated(run: FailoverRun) -> dict[tuple[str, str, int], dict[str, Any]]:
    result = run.simulation.result if run.simulation else None
    return {_key(row): row for row in (result or {}).get("partitions", [])}


def _key(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["group"], row["topic"], row["partition"]
