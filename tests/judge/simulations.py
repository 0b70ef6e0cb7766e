"""Simulations and real runs, requested over REST and compared with the ledger."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tests.judge.cluster import now_ms
from tests.judge.statements import drain_claims, moment, owed_claim, sentence_claims
from tests.judge.verdicts import (
    Certainty,
    Claim,
    Finding,
    Resume,
    judge_amount,
    judge_interval,
    judge_resume,
)
from tests.judge.world import World

ENDED = {"succeeded", "failed", "aborted"}
SIMULATION_S = 150.0
RUN_S = 240.0
# By then the runner has applied a decision.
GIVEN_UP_WITHIN_MS = 30_000
_CERTAINTIES: dict[str, Certainty] = {
    "counted": "counted",
    "at_most": "at_most",
    "at_least": "at_least",
    # By offsets, as of an earlier moment that is said beside it.
    "last_known": "at_most",
    "observed": "at_most",
    "unknown": "unknown",
}
# A step that is reached only when producers are refused on the source.
BEHIND_FENCE = (
    "drain",
    "read_checkpoints",
    "reset_groups",
    "start_consumers",
    "redirect_producers",
    "verify_flow",
)


def simulate(world: World) -> tuple[dict[str, Any] | None, list[Finding]]:
    """Ask for one, wait, and judge what it says; None where it was refused or did not end."""
    world.look()
    code, made = world.ask("failovers/", {"flow": world.name, "kind": "simulation"})
    if code >= 400:
        return None, [_broken("simulation", f"refused with {code}: {made}")]
    run = wait(world, f"failovers/{made['id']}/", SIMULATION_S)
    if run["state"] not in ENDED:
        return None, [_broken("simulation", f"did not end in {SIMULATION_S:.0f} s")]
    return run, list(judge_run(world, run))


def drill(world: World) -> list[Finding]:
    """A drill, its simulation, what it measured, and its certificate, which says the same."""
    world.look()
    code, made = world.ask("drill-runs/", {"flow": world.flow})
    if code >= 400:
        return [_broken("drill", f"refused with {code}: {made}")]
    path = f"drill-runs/{made['id']}/"
    until = time.monotonic() + SIMULATION_S
    while (run := world.rest(path))["ended_at"] is None or not run["certificate"]:
        if time.monotonic() > until:
            return [_broken("drill", f"did not end in {SIMULATION_S:.0f} s: {run['reason']}")]
        time.sleep(0.5)
    world.steps.append(f"drill {run['state']} {run['verification']}: {run['reason']}")
    findings = []
    if run["failover"]:
        findings += judge_run(world, world.rest(f"failovers/{run['failover']}/"))
    document = world.rest(f"certificates/{run['certificate']}/")["document"]
    at = moment(run["started_at"] or run["created_at"])
    for where, measured in (("drill", run["measured"]), ("certificate", document["measured"])):
        claim = Claim(
            statement=f"{where}: loss",
            records=(measured or {}).get("loss"),
            certainty=_CERTAINTIES[(measured or {}).get("loss_is") or "unknown"],
            as_of=at,
        )
        found = judge_amount(claim, world.ledger.owed(at))
        findings += [found] if found else []
    return findings


def wait(world: World, path: str, seconds: float) -> dict[str, Any]:
    until = time.monotonic() + seconds
    while (run := world.rest(path))["state"] not in ENDED and time.monotonic() < until:
        time.sleep(0.5)
    return dict(run)


def judge_run(world: World, run: Mapping[str, Any]) -> Iterator[Finding]:
    """The plan's and the result's figures, every sentence, and where each group resumes."""
    kind = run["kind"]
    copies = world.look()
    if run["state"] == "failed" and not run["result"]:
        yield _broken(kind, f"failed: {run['reason']}")
    at = moment(run["started_at"] or run["created_at"])
    for claim in _amounts(run, at):
        until = now_ms() if claim.certainty == "at_least" else claim.as_of
        truth = world.ledger.owed_until(claim.as_of, until, claim.topic, claim.partition)
        if (found := judge_amount(claim, truth)) is not None:
            yield found
        is_total = claim.topic is None and claim.statement.startswith("result of")
        # Under a quota of the source, records are counted as slowly as they are copied.
        is_countable = not world.hidden and not world.is_source_throttled(claim.as_of)
        if is_total and is_countable and (vague := judge_interval(claim, truth)):
            yield vague
        hides = claim.topic is None and claim.certainty == "unknown" and not world.source_is_dead
        if hides and (known := world.known_owed(claim.as_of)):
            yield Finding(
                kind="unknown_without_cause", statement=claim.statement, said="unknown", true=known
            )
    yield from _given_up(world, run, at)
    result = run["result"] or {}
    unknown = (result.get("totals") or {}).get("loss_unknown") or 0
    if unknown and not world.source_is_dead and not world.hidden:
        yield Finding(
            kind="unknown_without_cause",
            statement=f"loss of a {kind}",
            said=f"unknown for {unknown} partitions: {run['reason']}",
            true="all clusters answer and every topic may be described",
        )
    wrong = 0
    seen = _seen_before(world, at) if kind == "simulation" else None
    for row in result.get("partitions", ()):
        for finding in _resumes(world, kind, row, copies, seen):
            wrong += finding.kind == "wrong_resume"
            yield finding
    if wrong and run.get("verification") == "verified":
        yield Finding(
            kind="too_good", statement=f"verification of a {kind}", said="verified", true="wrong"
        )


def _given_up(world: World, run: Mapping[str, Any], at: int) -> Iterator[Finding]:
    """A loss that a person accepted is named by every later run."""
    plan = run["plan"] or {}
    rows = [*plan.get("left_behind", ()), *plan.get("blockers", ())]
    named = {row.get("topic") for row in rows}
    for topic in sorted(world.ledger.given_up(at - GIVEN_UP_WITHIN_MS) - named):
        yield Finding(
            kind="silent",
            statement=f"accepted losses in a {run['kind']}",
            said=", ".join(sorted(filter(None, named))) or "nothing",
            true=f"records of {topic} were given up by decision",
        )


def _amounts(run: Mapping[str, Any], at: int) -> Iterator[Claim]:
    kind = run["kind"]
    yield from sentence_claims(f"reason of a {kind}", run["reason"] or "", as_of=at)
    plan, result = run["plan"] or {}, run["result"] or {}
    for step in run.get("steps") or ():
        if step["name"] == "drain" and step["state"] == "succeeded":
            partitions = [(row["topic"], row["partition"]) for row in plan.get("partitions") or ()]
            yield from drain_claims(kind, step, partitions)
    # What is left behind, or not copied at all, is a part of the loss as well.
    lists = ("partitions", "not_copied", "left_partitions")
    parts = [row for name in lists for row in plan.get(name) or ()]
    for row in parts:
        age = row.get("source_end_age_ms") or 0
        yield Claim(
            statement=f"plan of a {kind}: loss of {row['topic'][:60]}-{row['partition']}",
            records=row["loss"],
            certainty="unknown" if row["loss"] is None else _CERTAINTIES[row["certainty"]],
            as_of=at - age,
            topic=row["topic"],
            partition=row["partition"],
        )
    totals = result.get("totals")
    if not totals:
        return
    if result.get("sentence"):
        yield from sentence_claims(f"sentence of a {kind}", result["sentence"], as_of=at)
    said = totals.get("loss_certainty") or totals.get("loss_is") or "at_most"
    records = totals.get("loss_known", totals.get("loss"))
    certainty = _CERTAINTIES[said]
    if totals.get("loss_unknown") and certainty != "unknown":
        certainty = "at_least"
    ages = [row.get("source_end_age_ms") or 0 for row in parts]
    yield Claim(
        statement=f"result of a {kind}: loss",
        records=None if certainty == "unknown" else records,
        certainty="unknown" if records is None else certainty,
        as_of=totals.get("loss_observed_at") or at - max(ages, default=0),
    )
    if owed := result.get("owed") or totals.get("owed"):
        yield owed_claim(f"result of a {kind}: owed", owed)


def _seen_before(world: World, at: int) -> Mapping[tuple[str, int], Collection[str]]:
    """The copies that surely existed at `at`; a running flow adds some during a simulation."""
    return next(
        (one.values for one in reversed(world.ledger.looks) if one.at <= at and not one.is_most), {}
    )


def _resumes(
    world: World,
    kind: str,
    row: Mapping[str, Any],
    copies: Mapping[tuple[str, int], list[tuple[int, str]]],
    seen: Mapping[tuple[str, int], Collection[str]] | None = None,
) -> Iterator[Finding]:
    topic, number, start = row["topic"], row["partition"], row["downstream_offset"]
    generation = world.ledger.current(topic)
    commit = world.ledger.commits.get((row["group"], topic, number))
    if start is None or generation is None or commit is None:
        return
    if commit.generation != generation.number or number not in generation.partitions:
        return
    records = generation.partitions[number]
    tp = row["remote_topic"], number
    there = copies.get(tp, [])
    if seen is not None and start is not None:
        there = [(at, value) for at, value in there if at < start or value in seen.get(tp, ())]
    said = Resume(
        statement=f"{kind}: {row['group']} in {topic[:60]}-{number}",
        downstream=start,
        re_reads=row.get("re_reads"),
        skipped=row.get("skipped"),
        copies=there,
        consumed=frozenset(r.value for r in records if r.offset < commit.offset),
        held=frozenset(r.value for r in records if r.visible_at is not None),
    )
    if (found := judge_resume(said)) is not None:
        yield found


def leave_behind(world: World, simulation: Mapping[str, Any], flow: int = 0) -> bool:
    """Decide to leave behind whatever is in the way and can be left; whether there was any.

    `flow`: another flow than the round's.
    """
    path = f"flows/{flow}/" if flow else world.path
    blockers = (simulation["plan"] or {}).get("blockers", ())
    partitions = {(row["topic"], row["partition"]) for row in blockers if row.get("topic")}
    for topic, number in sorted(partitions, key=str):
        body = {"topic": topic, "partition": number, "reason": "the judge"}
        code, said = world.ask(f"{path}left-behind/", body)
        world.steps.append(
            f"leave {topic[:60]} {number} behind: {code} {said if code > 299 else ''}"
        )
    return bool(partitions)


def execute(world: World, simulation: Mapping[str, Any], kind: str) -> list[Finding]:
    """A real run of what was simulated: it goes through, and what it says at its end is true."""
    asked = {
        "flow": world.name,
        "kind": kind,
        "simulation": simulation["id"],
        "confirm_alias": world.target_alias,
        "reason": "the judge",
    }
    code, made = world.ask("failovers/", asked)
    if code >= 400:
        blockers = (simulation["plan"] or {}).get("blockers")
        world.steps.append(f"the {kind} is refused: {made}")
        # What is in the way may refuse it; what is not may not.
        return [] if blockers else [_broken(kind, f"refused with {code}: {made}")]
    path = world.ran = f"failovers/{made['id']}/"
    until = time.monotonic() + RUN_S
    while (run := world.rest(path))["state"] not in ENDED:
        if time.monotonic() > until or run["waits_for"] == "trouble":
            return [held(kind, run)]
        begun = {step["name"] for step in run["steps"] if step["state"] != "pending"}
        if "read_checkpoints" in begun:
            # As people do when producers are refused: consumers of the source stop too.
            world.stop_readers()
        if "verify_flow" in begun:
            world.read_on_target()
        if run["waits_for"] == "person":
            world.ask(f"{path}confirm/", {"reason": "the judge"})
        time.sleep(0.5)
    world.steps.append(f"the {kind} {run['state']}: {run['reason']}")
    world.desired = "stopped"
    if run["state"] != "succeeded":
        return [held(kind, run)]
    return [*judge_run(world, run), *judge_groups(world, kind)]


def held(kind: str, run: Mapping[str, Any]) -> Finding:
    """It stopped: behind the fence this is the worst place."""
    step = next((s for s in run["steps"] if s["state"] in ("failed", "waiting", "running")), None)
    name = step["name"] if step else "?"
    behind = name in BEHIND_FENCE
    return Finding(
        kind="stopped_behind_fence" if behind else "broken",
        statement=f"{kind} at step {name}",
        said=f"{run['state']} {run['waits_for']}: {run['reason']} {step and step['reason']}",
        true="its simulation found nothing that would stop it",
    )


def judge_groups(world: World, what: str) -> Iterator[Finding]:
    """Where each group really is on the target: it skips nothing."""
    copies = world.look()
    for group in sorted(world.groups):
        placed = world.placed(group)
        for owner, topic, number in world.ledger.commits:
            at = placed.get((world.ledger.remote(topic), number))
            if owner == group and at is not None:
                row = {
                    "group": group,
                    "topic": topic,
                    "partition": number,
                    "remote_topic": world.ledger.remote(topic),
                    "downstream_offset": at,
                }
                yield from _resumes(world, f"offsets on the target, {what}", row, copies)


def judge_counted(world: World, path: str, seconds: float = 90.0) -> list[Finding]:
    """The source is back: the run gets the counted figure, and it is exact."""
    until = time.monotonic() + seconds
    while (run := world.rest(path)).get("counted_at") is None:
        if time.monotonic() > until:
            said = f"no counted figure {seconds:.0f} s after the source came back"
            return [_broken(run["kind"], said)]
        time.sleep(1)
    world.steps.append(f"counted: {run.get('counted_sentence')}")
    world.look()
    at = moment(run["counted_at"])
    claim = Claim(
        statement=f"counted loss of a {run['kind']}",
        records=run["counted_loss"],
        certainty=run["counted_loss_certainty"],
        as_of=at,
    )
    truth = world.ledger.owed(at)
    found = [judge_amount(claim, truth), judge_interval(claim, truth)]
    return [finding for finding in found if finding is not None]


def _broken(kind: str, said: str) -> Finding:
    return Finding(kind="broken", statement=kind, said=said, true="it could have gone on")
