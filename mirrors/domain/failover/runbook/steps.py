"""The nine steps as a table: what each checks, does and waits for, and how it is undone.

A step is done when its wait condition holds. Every action first checks whether it was done already,
so that repeating it changes nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

Kind = Literal["switchover", "failover"]
KINDS: tuple[Kind, ...] = ("switchover", "failover")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One step.

    - `limit_s`: how long it may last. `tries`: how often its action is tried automatically.
    - `accepts`: a person may accept what was not reached in time.
    """

    name: str
    title: str
    check: str
    act: str
    wait: str
    undo: str
    limit_s: int
    tries: int = 3
    accepts: bool = False

    @property
    def changes(self) -> bool:
        """Whether an abort has something to undo."""
        return self.undo != _NOTHING


_NOTHING = "It changes nothing, so there is nothing to undo."

STEPS: tuple[Step, ...] = (
    Step(
        name="detect",
        title="See how both clusters are",
        check="Reads groups and offsets of both clusters.",
        act="None.",
        wait="The target responds; for a switchover the source too.",
        undo=_NOTHING,
        limit_s=60,
    ),
    Step(
        name="verify_target",
        title="Verify the target",
        check="Makes a new plan and compares it with the simulated one.",
        act="None.",
        wait="The plan is not materially worse than what was simulated.",
        undo=_NOTHING,
        limit_s=120,
    ),
    Step(
        name="fence_producers",
        title="Fence the producers",
        check="Whether Write is already denied on the source's topics.",
        act="Denies Write on them, calls the hook, or asks a person.",
        wait="The end offsets of the source's topics do not change.",
        undo="Removes exactly the ACLs that it created, or calls the hook to undo it.",
        limit_s=90,
        accepts=True,
    ),
    Step(
        name="drain",
        title="Drain and stop the flow",
        check="How far each partition is behind the source's end offset.",
        act="Stops the flow; a switchover waits until everything is replicated.",
        wait="The flow's last job has committed and ended.",
        undo="Starts the flow again if it ran before.",
        limit_s=900,
    ),
    Step(
        name="read_checkpoints",
        title="Read checkpoints",
        check="Positions, offset runs and group offsets, to their ends.",
        act="Fixes the plan: the downstream offset of every group.",
        wait="For a switchover: no group is still reading on the source.",
        undo=_NOTHING,
        limit_s=300,
        accepts=True,
    ),
    Step(
        name="reset_groups",
        title="Set the groups on the target",
        check="Which groups are idle on the target, and their offsets.",
        act="Writes the offsets of idle groups, each once.",
        wait="Reading them back shows the same offsets.",
        undo="Restores the offsets that it changed and deletes those that it created, where "
        "nobody has consumed since.",
        limit_s=45,
        accepts=True,
    ),
    Step(
        name="start_consumers",
        title="Start the consumers on the target",
        check="Whether the hook was already called.",
        act="Calls the webhook or the command, or asks a person.",
        wait="The hook reports success.",
        undo="Calls the hook to undo it.",
        limit_s=300,
        accepts=True,
    ),
    Step(
        name="redirect_producers",
        title="Redirect the producers",
        check="Whether the hook was already called; whether an earlier run fenced the target.",
        act="Removes a fence that a run in the other direction left on the target; calls the "
        "webhook or the command, or asks a person.",
        wait="The hook reports success.",
        undo="Calls the hook to undo it, and restores that fence.",
        limit_s=300,
        accepts=True,
    ),
    Step(
        name="verify_flow",
        title="Verify",
        check="The groups' offsets on the target; whether anything is written on the source.",
        act="None.",
        wait="Every group that was set and had members on the source before the fence has "
        "consumed on the target, or has nothing to read.",
        undo=_NOTHING,
        limit_s=120,
        accepts=True,
    ),
)
BY_NAME: Mapping[str, Step] = {step.name: step for step in STEPS}
