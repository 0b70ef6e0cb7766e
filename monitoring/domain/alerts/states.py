"""States of alerts and of their messages, declared once as `mirrors.domain.states` describes."""

from __future__ import annotations

from typing import Final

from mirrors.domain.state_machine import State, StateMachine, States


class AlertState(States):
    """Of the violation of one rule by one subject."""

    PENDING = State(
        name="pending",
        meaning="the condition holds, not yet for the rule's time; deleted if it ceases",
        cause="the condition begins to hold",
    )
    FIRING = State(
        name="firing",
        meaning="the condition has held for the rule's time",
        cause="that time passes",
        predecessors=frozenset({"pending"}),
        action="open its runbook; acknowledge or silence it",
    )
    RESOLVED = State(
        name="resolved",
        meaning="the condition holds no longer",
        cause="the figure falls below the rule's limit, or the rule or its subject is deleted",
        predecessors=frozenset({"firing"}),
    )


ALERT = StateMachine(AlertState.declared(), initial=("pending",))


class DeliveryState(States):
    """Of one message to one channel."""

    QUEUED = State(
        name="queued",
        meaning="it is sent when it is due",
        cause="an alert fires or resolves, a person tests the channel, or an attempt failed",
        predecessors=frozenset({"sending", "dead"}),
    )
    SENDING = State(
        name="sending",
        meaning="a worker sends it",
        cause="a worker claims it, also from a worker that was lost while sending",
        predecessors=frozenset({"queued", "sending"}),
    )
    SENT = State(
        name="sent",
        meaning="the receiver accepted it",
        cause="the attempt succeeds",
        predecessors=frozenset({"sending"}),
    )
    DEAD = State(
        name="dead",
        meaning="it is not sent again",
        cause="the last attempt fails, or the receiver rejects the message",
        predecessors=frozenset({"sending"}),
        action="correct the channel; then retry",
    )


DELIVERY = StateMachine(DeliveryState.declared(), initial=("queued",))

# Title in the documents -> machine.
MACHINES: Final[dict[str, StateMachine]] = {"Alert": ALERT, "Message of an alert": DELIVERY}
