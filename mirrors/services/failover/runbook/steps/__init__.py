"""The nine steps of a failover, in order, each with the handler that runs it.

`mirrors.domain.failover.runbook.steps` has each step's checks, limits and undo as data. A handler
has `act` (the effect), `wait` (whether the effect is complete) and `undo`.
"""

from __future__ import annotations

from mirrors.domain.settings.failover import CONSUMERS
from mirrors.services.failover.runbook.context import Handler
from mirrors.services.failover.runbook.steps.drain import DRAIN
from mirrors.services.failover.runbook.steps.fence import FENCE
from mirrors.services.failover.runbook.steps.hooks import hook
from mirrors.services.failover.runbook.steps.preflight import DETECT, VERIFY_TARGET
from mirrors.services.failover.runbook.steps.read_checkpoints import READ_CHECKPOINTS
from mirrors.services.failover.runbook.steps.redirect_producers import REDIRECT_PRODUCERS
from mirrors.services.failover.runbook.steps.reset_groups import RESET_GROUPS
from mirrors.services.failover.runbook.steps.verify_flow import VERIFY_FLOW

HANDLERS: dict[str, Handler] = {
    "detect": DETECT,
    "verify_target": VERIFY_TARGET,
    "fence_producers": FENCE,
    "drain": DRAIN,
    "read_checkpoints": READ_CHECKPOINTS,
    "reset_groups": RESET_GROUPS,
    "start_consumers": hook(CONSUMERS),
    "redirect_producers": REDIRECT_PRODUCERS,
    "verify_flow": VERIFY_FLOW,
}
