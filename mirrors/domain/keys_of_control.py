"""Settings of ours that hold a flow back: how fast, until where, and what it leaves out."""

from __future__ import annotations

from mirrors.domain.schedules import Cron
from mirrors.domain.setting import Setting
from mirrors.domain.values import Flag, Until, Whole

BANDWIDTH = "bandwidth.limit.bytes"
SKIP = "skip.replicated"
UNTIL = "run.until"
SCHEDULE = "run.schedule"

CONTROL = (
    Setting(
        name=BANDWIDTH,
        verdict="ours",
        kind=Whole(1000, 1_000_000_000_000),
        default=None,
        meaning="How many bytes a second all slices of the flow together may read from the source.",
    ),
    Setting(
        name=SKIP,
        verdict="ours",
        kind=Flag(),
        default="false",
        meaning="Whether records that another flow wrote on the source are left out: two flows "
        "that both do so may copy the same names in both directions.",
    ),
    Setting(
        name=UNTIL,
        verdict="ours",
        kind=Until(),
        default=None,
        meaning="Where a run ends and the flow is stopped: the ends as of its start, or a moment.",
    ),
    Setting(
        name=SCHEDULE,
        verdict="ours",
        kind=Cron(),
        default=None,
        meaning="When a flow that has reached `run.until` is started again.",
    ),
)
