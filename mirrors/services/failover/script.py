"""The script of a run: its plan with Kafka's own tools, for when this product is unavailable."""

from __future__ import annotations

from mirrors.domain.failover.script import failover_script
from mirrors.models import FailoverRun
from mirrors.services.errors import Conflict


def script_of(*, run: FailoverRun) -> tuple[str, str]:
    """A file name and its text; Conflict while the run has no plan."""
    if not run.plan:
        raise Conflict(
            f"Run {run.pk} has no plan, so it has no script: the run must read both clusters "
            "first, and the target must respond.",
            code="no_plan",
        )
    flow = run.flow
    text = failover_script(
        run.plan,
        title=f"Run {run.pk}.",
        source_bootstrap=flow.source.bootstrap_servers,
        target_bootstrap=flow.target.bootstrap_servers,
    )
    name = f"failover-{flow.source.alias}-{flow.target.alias}-{run.pk}.sh"
    return name, text
