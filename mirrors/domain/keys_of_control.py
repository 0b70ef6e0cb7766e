"""Settings of ours that hold a flow back: how fast, until where, and what it leaves out."""

from __future__ import annotations

from mirrors.domain.setting import Setting
from mirrors.domain.values import Whole

BANDWIDTH = "bandwidth.limit.bytes"

CONTROL = (
    Setting(
        name=BANDWIDTH,
        verdict="ours",
        kind=Whole(1000, 1_000_000_000_000),
        default=None,
        meaning="How many bytes a second all slices of the flow together may read from the source.",
    ),
)
