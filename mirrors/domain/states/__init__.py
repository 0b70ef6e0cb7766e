"""States of runs and findings: each machine is declared once, and everything else follows from it.

Model choices, the REST enumerations, the pages `docs/design/states*.md` and the check of each
transition come from these declarations. Names are stored and published: they do not change.
"""

from __future__ import annotations

from typing import Final

from mirrors.domain.state_machine import StateMachine
from mirrors.domain.states import findings, runs

# Title in the documents -> machine.
MACHINES: Final[dict[str, StateMachine]] = {
    "Failover run": runs.FAILOVER_RUN,
    "Step of a failover run": runs.FAILOVER_STEP,
    "Failback": runs.FAILBACK,
    "Comparison": runs.COMPARISON,
    "Drill": runs.DRILL,
    "Connection test": runs.CONNECTION_TEST,
    "Data loss": findings.GAP,
    "Drift": findings.DRIFT,
    "Orphans": findings.ORPHANS,
}
