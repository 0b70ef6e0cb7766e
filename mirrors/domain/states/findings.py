"""States of findings that a person decides on: data loss (gaps), drift and orphans.

Some states are final only together with `closed_at`: a decision is applied later, by another
process, and the row keeps the state of the decision.
"""

from __future__ import annotations

from mirrors.domain.state_machine import State, StateMachine, States


class GapState(States):
    """Of data loss on one partition."""

    OPEN = State(
        name="open",
        meaning="nobody has decided; the partition is not copied",
        cause="the runner reports it; or its numbers change before a decision was applied",
        predecessors=frozenset({"accepted", "restarted"}),
        action="decide: accept, restart or stop",
    )
    ACCEPTED = State(
        name="accepted",
        meaning="copying resumes without the lost records",
        cause="a person accepts the loss",
        predecessors=frozenset({"open"}),
    )
    RESTARTED = State(
        name="restarted",
        meaning="the partition is copied again from its first available offset",
        cause="a person chooses a restart",
        predecessors=frozenset({"open"}),
    )
    CLOSED = State(
        name="closed",
        meaning="it exists no more, without an applied decision; or it is only reported",
        cause="the runner reports the partition without it, or the flow excludes the partition",
        predecessors=frozenset({"open", "accepted", "restarted"}),
    )


# Foreign records on a remote topic are only reported: that row begins closed.
GAP = StateMachine(GapState.declared(), initial=("open", "closed"))


class DriftState(States):
    """Of a value on the target that somebody changed manually."""

    OPEN = State(
        name="open",
        meaning="nobody has decided, and the flow does not change the value",
        cause="a sync task finds it; a decision no longer applies; or Kafka refuses the fix",
        predecessors=frozenset({"accepted", "ignored", "fixing"}),
        action="decide: accept, fix or ignore",
    )
    ACCEPTED = State(
        name="accepted",
        meaning="this value stays",
        cause="a person accepts the value",
        predecessors=frozenset({"open", "ignored", "fixing"}),
    )
    IGNORED = State(
        name="ignored",
        meaning="any value stays until the decision expires",
        cause="a person ignores the value",
        predecessors=frozenset({"open", "accepted", "fixing"}),
    )
    FIXING = State(
        name="fixing",
        meaning="a worker restores the flow's value",
        cause="a person chooses the fix",
        predecessors=frozenset({"open", "accepted", "ignored"}),
    )
    FIXED = State(
        name="fixed",
        meaning="the target has the flow's value again",
        cause="a worker or a sync task restored it",
        predecessors=frozenset({"open", "accepted", "ignored", "fixing"}),
    )
    CLOSED = State(
        name="closed",
        meaning="target and source are equal again",
        cause="a sync task finds no difference",
        predecessors=frozenset({"open", "accepted", "ignored", "fixing"}),
    )


DRIFT = StateMachine(DriftState.declared(), initial=("open",))


class OrphanState(States):
    """Of the records of one partition that only the old primary has."""

    LISTED = State(
        name="listed",
        meaning="nobody has decided",
        cause="the preparation of a failback lists them",
        action="decide: replay, export or drop",
    )
    DECIDED = State(
        name="decided",
        meaning="a worker carries the decision out",
        cause="a person decides",
        predecessors=frozenset({"listed", "failed"}),
    )
    REPLAYED = State(
        name="replayed",
        meaning="the new primary has a marked copy of each record",
        cause="a worker wrote them",
        predecessors=frozenset({"decided"}),
    )
    EXPORTED = State(
        name="exported",
        meaning="the records are kept here, and the flow skips them",
        cause="a worker moved the flow's position",
        predecessors=frozenset({"decided"}),
    )
    DROPPED = State(
        name="dropped",
        meaning="the flow skips the records",
        cause="a worker moved the flow's position",
        predecessors=frozenset({"decided"}),
    )
    FAILED = State(
        name="failed",
        meaning="the decision was not carried out, or only in part",
        cause="a cluster refuses a request, or the flow is not stopped",
        predecessors=frozenset({"decided"}),
        action="correct the cause; decide again",
    )


ORPHANS = StateMachine(OrphanState.declared(), initial=("listed",))
