"""Detects growth and slowdown: the last third of a run compared with the earlier ones."""

from __future__ import annotations

import dataclasses
import statistics
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise

from tests.soak.meter import Pair, Sample, Series

# What a service may have more of at the end, beside a part of what it had: pools breathe.
ROOM = {"memory": 12e6, "processes": 2, "threads": 2, "files": 6, "connections": 6}
PART_OF_BYTES, PART = 0.05, 0.01


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")


def grown(samples: Sequence[Mapping[str, Sample]]) -> list[str]:
    """What goes on growing, by medians of thirds, service by service; sentences.

    What rises once and stays there is no leak: memory that a fork no longer shares once it was
    looked through for garbage, a client's second connection to a broker after a cut.
    """
    third, wrong = len(samples) // 3, []
    say(f"{len(samples)} samples; medians of each third:")
    for name in samples[0]:
        rows = [row[name] for row in samples]
        most = max(row.processes for row in rows)
        told = []
        for field in dataclasses.fields(Sample):
            values = [getattr(row, field.name) for row in rows]
            before, middle, after = (
                statistics.median(part)
                for part in (values[:third], values[third:-third], values[-third:])
            )
            told.append(f"{field.name} {before:,.0f} {middle:,.0f} {after:,.0f}")
            room = _room(field.name, before)
            if after > before + room and after > middle + room / 2:
                wrong.append(f"{field.name} of {name} grew from {before:,.0f} to {after:,.0f}")
        say(f"{name}: {', '.join(told)}; at most {most} processes")
        if most > 2 * statistics.median(row.processes for row in rows[:third]):
            wrong.append(f"{name} had {most} processes")
    return wrong


def _room(what: str, before: float) -> float:
    return before * (PART_OF_BYTES if what == "memory" else PART) + ROOM[what]


def slowed(series: Mapping[str, Series], began: float, span_s: float) -> list[str]:
    """What took longer in the last third than in the first, by median and 99th percentile."""
    wrong = []
    for name, one in series.items():
        bounds = [began + span_s * part / 3 for part in range(4)]
        early, middle, late = (one.between(*pair) for pair in pairwise(bounds))
        told = ", ".join(_brief(pair) for pair in (early, middle, late))
        say(f"{name}, median and p99 of each third in ms: {told}")
        if late[0] > early[0] * 1.5 + 20 or late[1] > early[1] * 2 + 100:
            wrong.append(f"{name} slowed down from {_brief(early)} to {_brief(late)}")
    return wrong


def _brief(pair: Pair) -> str:
    return f"{pair[0]:,.0f}/{pair[1]:,.0f}"
