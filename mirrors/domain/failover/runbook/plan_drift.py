"""Whether a plan became materially worse than the simulated plan that a person approved.

Live figures move, so a slightly higher loss does not matter. A fact that was unknown then does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mirrors.domain.failover.runbook.steps import Kind
from mirrors.domain.formatting import plural
from mirrors.domain.groups.reasons import name_of

# A loss that grew by fewer records than this, or less than doubled, does not stop a run.
LOSS_MARGIN = 1_000
# A run stops the flow itself, and the last figures of a dead source grow older by themselves.
# What nobody read before the source was lost, nobody can read any more.
EXPECTED = {
    "switchover": {"writing"},
    "failover": {"writing", "not_running", "sample_too_old", "never_read"},
}
Plan = Mapping[str, Any]


def find_regressions(kind: Kind, simulated: Plan, now: Plan) -> tuple[str, ...]:
    """Return a sentence for each thing that nobody approved. Both plans are JSON."""
    return (
        *_blockers(kind, simulated, now),
        *_loss(kind, simulated, now),
        *_resume_offsets(simulated, now),
    )


def remaining_blockers(kind: Kind, plan: Plan) -> tuple[str, ...]:
    """Return the blockers that will not end automatically."""
    return tuple(row["sentence"] for row in plan["blockers"] if row["code"] not in EXPECTED[kind])


# Warnings that report a figure or a fact. Every other one asks a person to do something.
_REPORTS = {"loss", "ahead", "expired", "lower_bound", "gone", "no_offset", "drift_not_seen"}


def split_warnings(plan: Plan) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the warnings that a person has to act on, and those that only report."""
    rows = plan.get("warnings", [])
    return (
        tuple(row["sentence"] for row in rows if row["code"] not in _REPORTS),
        tuple(row["sentence"] for row in rows if row["code"] in _REPORTS),
    )


def remaining_lag(plan: Plan) -> int | None:
    """Return the offsets that a switchover waits for; None while one partition is unknown.

    What is left behind by decision does not count.
    """
    found: int | None = plan["pending"] if "pending" in plan else plan["loss"]
    return found


def _blockers(kind: Kind, simulated: Plan, now: Plan) -> Iterator[str]:
    known = {(row["code"], row["where"]) for row in simulated["blockers"]}
    for row in now["blockers"]:
        if row["code"] not in EXPECTED[kind] and (row["code"], row["where"]) not in known:
            yield row["sentence"]


def _loss(kind: Kind, simulated: Plan, now: Plan) -> Iterator[str]:
    if kind == "switchover":
        # It waits until nothing is left to copy: what lags now is not lost.
        if not _is_observed(now):
            yield "The source no longer responds; a switchover needs it. Choose failover."
        return
    before, after = simulated["loss"], now["loss"]
    if after is None and before is not None:
        yield f"The data loss is now unknown; it was {plural(before, 'record')} when simulated."
    elif after is not None and before is not None and after > max(2 * before, before + LOSS_MARGIN):
        yield f"{plural(after, 'record')} would be lost; it was {before:,} when simulated."


def _is_observed(plan: Plan) -> bool:
    """Return whether the source responded for what takes part.

    Topics that are left behind by decision may be hidden from the flow. If nothing else takes part,
    there is nothing to wait for, and `preflight` has checked that the source responds.
    """
    rows = plan["partitions"]
    if not rows:
        return plan["certainty"] == "observed" or bool(plan.get("left_behind"))
    return all(row["certainty"] == "observed" for row in rows)


def _resume_offsets(simulated: Plan, now: Plan) -> Iterator[str]:
    after = {_key(row): row["downstream_offset"] for row in now["places"]}
    lost = [
        _key(row)
        for row in simulated["places"]
        if row["downstream_offset"] is not None and after.get(_key(row)) is None
    ]
    blocked = {row["where"] for row in now["blockers"]}
    reported = [key for key in lost if not blocked & {name_of(*key), name_of(*key[:3])}]
    if reported:
        more = f" and {len(reported) - 1:,} more" if len(reported) > 1 else ""
        yield (
            f"{name_of(*reported[0])}{more} had a resume offset when simulated, and has none now."
        )


def _key(row: Mapping[str, Any]) -> tuple[str, str, int, str]:
    return row["group"], row["topic"], row["partition"], row.get("route", "")


def blast_radius(plan: Plan) -> dict[str, int | None]:
    """Return how many topics, partitions and groups a run of this plan changes."""
    partitions: Sequence[Any] = plan["partitions"]
    return {
        "topics": len({row["topic"] for row in partitions}),
        "partitions": len(partitions),
        "groups": len({row["group"] for row in plan["places"]}),
        "places": len(plan["places"]),
        "not_moved": sum(row["downstream_offset"] is None for row in plan["places"]),
        "loss": plan["loss"],
        "re_reads": plan["re_reads"],
    }
