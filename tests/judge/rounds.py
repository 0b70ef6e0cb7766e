"""One round by seed: a flow, a few moves, all statements compared after each, a run at the end."""

from __future__ import annotations

import dataclasses
import time
import traceback
from typing import Any

from confluent_kafka import KafkaException

from controlplane.demo.errors import DemoError
from tests.journeys.demo_client import Person
from tests.judge.checks import Check
from tests.judge.cluster import now_ms
from tests.judge.failbacks import fail_back
from tests.judge.flow_moves import CommitGroup, choose
from tests.judge.simulations import drill, execute, judge_counted, leave_behind, simulate
from tests.judge.stage import JudgeStage
from tests.judge.takeover import begin_after_mirror_maker
from tests.judge.verdicts import Finding
from tests.judge.world import World

STEPS = 3
# Of the rounds with a real run, the share that goes back to the old primary.
FAILED_BACK = 0.5
MOVES_A_STEP = 3
# One round in this number begins after a MirrorMaker 2.
MIRRORED = 15
# After the last move of a step: every statement has had time to show it.
SETTLE_S = 11.0
TROUBLE = (AssertionError, DemoError, KafkaException, LookupError, OSError, TypeError, ValueError)


@dataclasses.dataclass
class Outcome:
    """What a round did and found. `again` is how to play it again."""

    seed: int
    steps: list[str]
    findings: list[Finding]
    ledger: list[str]
    seconds: float

    def __str__(self) -> str:
        lines = [f"seed {self.seed}: {len(self.findings)} findings in {self.seconds:.0f} s"]
        lines += [f"  step {step}" for step in self.steps]
        lines += [f"  FINDING {finding}" for finding in self.findings]
        if self.findings:
            lines += [f"  ledger {line}" for line in self.ledger]
            lines.append(f"  again: make test-judge SEED={self.seed}")
        return "\n".join(lines)


def play(stage: JudgeStage, person: Person, seed: int) -> Outcome:
    """A round; what breaks in the judge's own acts is a finding too, with its trace."""
    world = World(stage, person, seed)
    findings: list[Finding] = []
    began = time.monotonic()
    try:
        _begin(world)
        for _ in range(STEPS):
            findings += _step(world)
        findings += _finish(world)
    except TROUBLE:
        findings.append(_crash(world))
    ledger = _ledger(world)
    try:
        world.end()
    except TROUBLE:
        findings.append(_crash(world))
    return Outcome(seed, world.steps, _distinct(findings), ledger, time.monotonic() - began)


def _begin(world: World) -> None:
    """Some topics with records, copied, and a group."""
    for _ in range(world.chance.randint(2, 4)):
        topic = world.new_name()
        world.create(topic, world.chance.choice((1, 2, 3)))
        world.produce(topic, world.chance.randint(10, 120))
    if world.seed % MIRRORED == 0:
        CommitGroup().do(world)
        begin_after_mirror_maker(world)
    else:
        world.begin()
    world.wait_until_running()
    world.steps.append(f"begin with {len(world.ledger.topics)} topics")
    time.sleep(3)
    world.look()


def _step(world: World) -> list[Finding]:
    for _ in range(world.chance.randint(1, MOVES_A_STEP)):
        move = choose(world)
        world.steps.append(f"{len(world.steps)}: {move.do(world)}")
    world.acted_at = now_ms()
    if not world.target_is_dead:
        world.look()
    time.sleep(SETTLE_S)
    found = Check(world).run()
    world.steps += [f"found: {one.kind}: {one.statement[:60]}: {one.said[:120]}" for one in found]
    return found


ENDS = ("simulation", "drill", "switchover", "failover", "dead source")


def _finish(world: World) -> list[Finding]:
    """A simulation or a drill, and in most rounds a real run of it."""
    end = world.chance.choice(ENDS)
    _put_right(world, end)
    if end == "dead source" and not world.source_is_dead:
        # What the flow saw last and what came after it: that is what a failover is about.
        world.stop_readers()
        _load(world)
        world.kill_source()
        world.steps.append("kill -9 of the source")
        time.sleep(6)
    if not world.source_is_dead:
        world.note_readers()
    if end == "drill":
        return drill(world)
    run, findings = simulate(world)
    verified = run and run.get("verification")
    world.steps.append(f"simulation {run and run['state']} {verified}: {run and run['reason']}")
    if run is None or end == "simulation":
        return findings
    if leave_behind(world, run):
        time.sleep(3)
        run, more = simulate(world)
        findings += more
        world.steps.append(f"again, simulation {run and run['state']}: {run and run['reason']}")
    if run is None or run["state"] != "succeeded":
        return findings
    return [*findings, *_run(world, run, end)]


def _put_right(world: World, end: str) -> None:
    """What a person puts right before a run; of a dead target nothing can be simulated."""
    if world.transaction is not None and not world.source_is_dead:
        world.end_open(committed=True)
    if world.target_is_dead:
        world.revive_target()
        world.steps.append("the target is back")
        if world.desired == "running":
            world.wait_until_running()
    if end not in ("simulation", "drill"):
        world.lift_quota()


def _run(world: World, run: dict[str, Any], end: str) -> list[Finding]:
    kind = "failover" if world.source_is_dead or end != "switchover" else "switchover"
    was_dead = world.source_is_dead
    findings = execute(world, run, kind)
    if was_dead:
        world.revive_source()
        world.steps.append("the source is back")
        if world.ran and not findings:
            findings += judge_counted(world, world.ran)
    if world.ran and not findings and world.chance.random() < FAILED_BACK:
        if was_dead:
            # Nobody fenced the old primary: its producers go on.
            _load(world)
        # The old primary has one broker, and the reverse flow inherits the setting.
        world.set_properties(**{"replication.factor": "1"})
        findings += fail_back(world)
    return findings


def _load(world: World) -> None:
    for generation in world.ledger.living():
        if generation.topic not in world.denied:
            world.produce(generation.topic, world.chance.randint(20, 400))


def _crash(world: World) -> Finding:
    trace = traceback.format_exc(limit=-4)
    return Finding(kind="broken", statement="the round itself", said=trace, true="it goes on")


def _distinct(findings: list[Finding]) -> list[Finding]:
    """The first of each statement and kind: the next steps find the same again."""
    kept = {(finding.kind, finding.statement): finding for finding in reversed(findings)}
    return list(kept.values())[::-1]


def _ledger(world: World) -> list[str]:
    if not world.ledger.looks:
        return []
    lines = []
    for topic, lives in world.ledger.topics.items():
        last = lives[-1]
        held = sum(record.gone_at is None for record in last.records())
        owed = world.ledger.owed(now_ms() + 20_000, topic).least
        gone = ", deleted" if last.deleted_at else ""
        lines.append(
            f"{topic[:60]}: generation {last.number}{gone}, {len(last.partitions)} partitions, "
            f"{held} records, {owed} owed"
        )
    return lines
