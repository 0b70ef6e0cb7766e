"""States of flows, runs and findings: each machine is declared once, the rest follows from it.

Model choices, the REST enumerations, the pages `docs/design/states*.md` and the check of each
transition come from these declarations. Names are stored and published: they do not change.
"""

from __future__ import annotations

from typing import Final

from mirrors.domain.state_machine import StateMachine
from mirrors.domain.states import findings, flows, runners, runs, sync

# Title in the documents -> machine.
MACHINES: Final[dict[str, StateMachine]] = {
    "Desired state of a flow": flows.DESIRED,
    "Observed state of a flow": flows.OBSERVED,
    "Job of a flow": flows.JOB,
    "Runner": runners.RUNNER,
    "Failover run": runs.FAILOVER_RUN,
    "Step of a failover run": runs.FAILOVER_STEP,
    "Failback": runs.FAILBACK,
    "Comparison": runs.COMPARISON,
    "Drill": runs.DRILL,
    "Connection test": runs.CONNECTION_TEST,
    "Run of a sync task": sync.SYNC_RUN,
    "Plan of a flow's target": sync.PLAN,
    "Data loss": findings.GAP,
    "Drift": findings.DRIFT,
    "Orphans": findings.ORPHANS,
}
