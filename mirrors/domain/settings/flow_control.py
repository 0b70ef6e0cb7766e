"""Understudy's settings that limit a flow: bandwidth, run bounds, priorities, left-out records."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.cron import Cron, Zone
from mirrors.domain.settings.run_bounds import RunUntil, named_offsets, shown_partition
from mirrors.domain.settings.value_types import Boolean, Integer, Patterns, Setting, TopicName
from mirrors.domain.transforms import rules

BANDWIDTH = "bandwidth.limit.bytes"
OVERLAP = "fetch.overlap.bytes"
SKIP = "skip.replicated"
UNTIL = "run.until"
SCHEDULE = "run.schedule"
ZONE = "run.schedule.zone"
WINDOW = "run.window.minutes"
COMPARE_SCHEDULE = "compare.schedule"
COMPARE_ZONE = "compare.schedule.zone"
START = "start.from"
HIGH = "topics.priority.high"
LOW = "topics.priority.low"
PINNED = "runner.pinned"

CONTROL = (
    Setting(
        name=BANDWIDTH,
        verdict="ours",
        kind=Integer(1000, 1_000_000_000_000),
        default=None,
        meaning="How many bytes per second all slices of the flow together may read "
        "from the source.",
    ),
    Setting(
        name=OVERLAP,
        verdict="ours",
        kind=Integer(0, 1_000_000_000_000),
        default="0",
        meaning="How many bytes per second all slices of the flow together may read a second time, "
        "so that live records of a source 20 ms away or more arrive sooner; 0 for none.",
    ),
    Setting(
        name=HIGH,
        verdict="ours",
        kind=Patterns(),
        default="",
        meaning="Which topics have high priority when not everything can be read at "
        "once. While all three classes wait, 8 bytes are read of high, 4 of "
        "normal and 1 of low.",
    ),
    Setting(
        name=LOW,
        verdict="ours",
        kind=Patterns(),
        default="",
        meaning="Which topics have low priority then; they always get their share. A "
        "topic that both settings match is high.",
    ),
    Setting(
        name=SKIP,
        verdict="ours",
        kind=Boolean(),
        default="false",
        meaning="Whether records that another flow wrote on the source are skipped. "
        "Two flows that both skip them may replicate the same names in both "
        "directions.",
    ),
    Setting(
        name=rules.TRANSFORMS,
        verdict="ours",
        kind=rules.RuleList(),
        default="",
        meaning="Rules that drop and change records: for topics, Spark SQL expressions. MM2's "
        "`transforms` is a list of names; an import translates it.",
    ),
    Setting(
        name=rules.DEAD_LETTER_TOPIC,
        verdict="ours",
        kind=TopicName(),
        default=None,
        meaning="The topic on the target for records for which a rule with "
        "`on_error=dead_letter` fails. Not set: `dead-letters.` and the alias of the source.",
    ),
    Setting(
        name=UNTIL,
        verdict="ours",
        kind=RunUntil(),
        default=None,
        meaning="Where a run ends; the flow then stops. One of: the end offsets when the run "
        "starts, a time, or the first offsets that are not replicated. Partitions "
        "without an offset are not replicated.",
    ),
    Setting(
        name=SCHEDULE,
        verdict="ours",
        kind=Cron(),
        default=None,
        meaning="When a flow that reached `run.until`, or whose window closed, starts again.",
    ),
    Setting(
        name=ZONE,
        verdict="ours",
        kind=Zone(),
        default=None,
        meaning="The time zone of `run.schedule`; UTC if not set.",
    ),
    Setting(
        name=WINDOW,
        verdict="ours",
        kind=Integer(1, 40_320),
        default=None,
        meaning="How long the window stays open after each time of `run.schedule`. When it "
        "closes, the flow commits and stops until the next window opens.",
    ),
    Setting(
        name=COMPARE_SCHEDULE,
        verdict="ours",
        kind=Cron(),
        default=None,
        meaning="When the records of both clusters are compared, each time from where the last "
        "comparison ended. With `skip.replicated`, conflicting keys are reported at the same "
        "time. Never if not set.",
    ),
    Setting(
        name=COMPARE_ZONE,
        verdict="ours",
        kind=Zone(),
        default=None,
        meaning="The time zone of `compare.schedule`; UTC if not set.",
    ),
    Setting(
        name=PINNED,
        verdict="ours",
        kind=Boolean(),
        default="false",
        meaning="true: the flow stays on its runner. The runner's pool does not move it; a person "
        "can.",
    ),
)


def without_old_schedule(properties: Mapping[str, str]) -> dict[str, str]:
    """Return stored settings without a schedule that only older versions accepted.

    A start rejects it with the reason. Sync tasks, failovers and other flows do not need it.
    """
    try:
        Cron().parse(properties.get(SCHEDULE, "* * * * *"))
    except ValueError:
        return {
            key: text for key, text in properties.items() if key not in (SCHEDULE, ZONE, WINDOW)
        }
    return dict(properties)


def contradictions(
    properties: Mapping[str, str], consumer: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return sentences by key. Each value is valid by itself."""
    found: dict[str, list[str]] = {}
    if properties.get(SKIP, "").strip().lower() == "true":
        if properties.get("delivery", "").strip() == "at_least_once":
            found[SKIP] = [
                f"{SKIP}=true needs delivery=exactly_once: records of a flow are recognized only "
                "if they are committed together with their offset runs."
            ]
        elif consumer.get("isolation.level") == "read_uncommitted":
            found[SKIP] = [
                f"{SKIP}=true needs consumer.isolation.level=read_committed: an uncommitted "
                "record cannot be told from one that another flow wrote."
            ]
    return found | _of_runs(properties)


def _of_runs(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return problems of run bounds and schedules."""
    found: dict[str, list[str]] = {}
    until = properties.get(UNTIL, "").strip()
    if SCHEDULE not in properties:
        for key in (WINDOW, ZONE):
            if key in properties:
                found[key] = [f"{key} needs {SCHEDULE}, which says when runs begin."]
    elif not until and WINDOW not in properties:
        found[SCHEDULE] = [
            f"{SCHEDULE} needs {UNTIL} or {WINDOW}: a run without an end is not started again."
        ]
    elif until and until != "end":
        found[SCHEDULE] = [
            f"{SCHEDULE} needs {UNTIL}=end: every run after the first would end immediately at "
            f"{until}."
        ]
    starts = named_offsets(properties.get(START, "").strip()) or {}
    for tp, stop in (named_offsets(until) or {}).items():
        if stop < (start := starts.get(tp, 0)):
            found.setdefault(UNTIL, []).append(
                f"{UNTIL} ends {shown_partition(tp)} at offset {stop}, before {START} starts it "
                f"at {start}."
            )
    return found
