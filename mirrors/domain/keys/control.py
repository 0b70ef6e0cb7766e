"""Settings of ours that hold a flow back: how fast, until where, and what it leaves out."""

from __future__ import annotations

from mirrors.domain.keys.setting import Setting
from mirrors.domain.keys.values import Flag, Patterns, Until, Whole
from mirrors.domain.schedules import Cron

BANDWIDTH = "bandwidth.limit.bytes"
SKIP = "skip.replicated"
UNTIL = "run.until"
SCHEDULE = "run.schedule"
HIGH = "topics.priority.high"
LOW = "topics.priority.low"

CONTROL = (
    Setting(
        name=BANDWIDTH,
        verdict="ours",
        kind=Whole(1000, 1_000_000_000_000),
        default=None,
        meaning="How many bytes a second all slices of the flow together may read from the source.",
    ),
    Setting(
        name=HIGH,
        verdict="ours",
        kind=Patterns(),
        default="",
        meaning="Which topics go first while not everything can be read at once: 8 bytes of "
        "theirs, 4 of a normal topic's and 1 of a low one's are read, as long as all three wait.",
    ),
    Setting(
        name=LOW,
        verdict="ours",
        kind=Patterns(),
        default="",
        meaning="Which topics go last then; they always get their part. A topic that both keys "
        "name is high.",
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
