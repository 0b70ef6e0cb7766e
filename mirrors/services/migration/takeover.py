"""Takeover from MirrorMaker 2: check that it writes nothing, then start the flow at its offsets.

The runner reads the positions after fencing; here is only the check.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.migration.takeover import Mm2Activity, read_mm2_positions, watched_topics
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.sync.schedule import Outcome
from mirrors.domain.sync.tasks import TAKEOVER_CHECK
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import read_to_end
from mirrors.kafka.mm2_activity import end_offsets, group_state, selected_topics
from mirrors.models import DutyRun, Flow
from mirrors.models.flows import DesiredState
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.flows.commands import start_flow
from mirrors.services.run_lifecycle import send_on_commit
from mirrors.services.sync.runs import attempt, claim_run, close_run, request_run

SECONDS = 10
LONGEST_S = 20
DEADLINE_S = 7.0


def request_check(
    *, flow: Flow, seconds: int, start: bool = False, who: str = "", now: datetime
) -> DutyRun:
    """Store the check that a worker does; with `start` it then starts the flow for `who`."""
    if not 1 <= seconds <= LONGEST_S:
        raise InvalidSettings({"seconds": [f"It must be a whole number from 1 to {LONGEST_S}."]})
    if flow.desired_state != DesiredState.STOPPED:
        raise Conflict(
            f"{flow.name} is not stopped: its own writes would look like MirrorMaker 2's. "
            "Stop it, then check."
        )
    run = request_run(
        flow_id=flow.pk,
        name=TAKEOVER_CHECK,
        slot=milliseconds(now),
        now=now,
        refusal=f"A check of MirrorMaker 2 for {flow.name} is already running. Wait until it ends.",
    )
    send_on_commit("mirrors.tasks.check_takeover", run.pk, flow.pk, seconds, start, who)
    return run


def last_check(*, flow: Flow) -> DutyRun | None:
    return DutyRun.objects.filter(flow=flow, duty=TAKEOVER_CHECK).first()


def run_check(
    *,
    run_id: int,
    seconds: int,
    start: bool,
    who: str,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """In a worker. True when MM2 writes nothing; with `start` the flow is then started."""
    run = claim_run(run_id=run_id)
    if run is None:
        return False

    def check() -> Outcome:
        signs = observe_mm2(run.flow, seconds=seconds, sleep=sleep)
        sentences = signs.sentences(run.flow.source.alias, run.flow.target.alias)
        if signs.quiet and start:
            why = "Took over from MirrorMaker 2, which is stopped."
            start_flow(flow=run.flow, who=who, why=why)
        counts = {
            "quiet": int(signs.quiet),
            "moved": len(signs.moved),
            "positions": signs.stand.partitions,
            "started": int(signs.quiet and start),
        }
        return Outcome(counts=counts, reasons=sentences)

    outcome, error = attempt(check, name=TAKEOVER_CHECK, flow_id=run.flow_id)
    outcome = outcome or Outcome(counts={"quiet": 0})
    close_run(run=run, outcome=outcome, error=error)
    return bool(outcome.counts["quiet"])


def observe_mm2(flow: Flow, *, seconds: int, sleep: Callable[[float], None]) -> Mm2Activity:
    """MM2's offsets, read twice with `seconds` between them, to detect writes."""
    spec = flow.spec
    policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
    with Admin(spec.source, client_id="understudy-takeover") as source:
        here = source.snapshot(now=0, deadline_s=DEADLINE_S, with_configs=False)
    admin = Admin(spec.target, client_id="understudy-takeover")
    try:
        records = read_to_end(admin, policy.offsets_topic(), deadline_s=DEADLINE_S)
        stand = read_mm2_positions(
            [(record.key, record.value) for record in records], spec.source.alias
        )
        watched = watched_topics(policy, stand, selected_topics(spec, here))
        before = end_offsets(admin, watched)
        sleep(seconds)
        after = end_offsets(admin, watched)
    finally:
        admin.close()
    group, state = group_state(spec)
    return Mm2Activity(
        seconds=seconds,
        group_name=group,
        group=state,
        before=before,
        after=after,
        stand=stand,
    )
