"""Advice that saves transfer, with its figures; none where a figure is not known."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Literal, get_args

from mirrors.domain.formatting import plural, size
from mirrors.domain.replication_policy import HEARTBEATS
from mirrors.domain.topics.compression import (
    CODEC,
    LARGE_BATCH_BYTES,
    CompressionSample,
    Saving,
    best_saving,
)
from monitoring.domain.costs import MonthCost, Price, cost_of, money

# A topic is idle if no group that reads it has committed another offset for this time.
IDLE_AFTER = timedelta(days=7)
# Topics that a sentence names, and topics with advice on compression.
_NAMED = 3
_COMPRESSED = 5
# A peak this many times the mean is worth a limit.
_PEAK_FACTOR = 3.0
Code = Literal["unread", "idle", "compression", "peak", "unsurveyed"]
CODES = get_args(Code)
_HEARTBEATS = re.compile(rf"(.*\.)?{HEARTBEATS}")
_LINGER = f"`batch.size={LARGE_BATCH_BYTES}` and `linger.ms=20`"


@dataclasses.dataclass(frozen=True)
class Advice:
    """What would save transfer. `bytes` and `saves` are of a month; None where unknown.

    `topic`: the topic that it is about; empty for several, or for the whole flow.
    """

    code: Code
    sentence: str
    bytes: int | None = None
    saves: Decimal | None = None
    topic: str = ""


@dataclasses.dataclass(frozen=True)
class Readers:
    """Topics by what the flow's survey of consumer groups knows.

    - `read`: a group has an offset in it. `idle`: the longest time for which each of its groups has
      kept its offsets, although records wait.
    """

    read: Collection[str]
    idle: Mapping[str, timedelta]


def advise(
    *,
    by_topic: Mapping[str, int],
    readers: Readers | None,
    samples: Mapping[str, CompressionSample],
    month: MonthCost,
    price: Price | None,
    mean_rate: float | None,
    peak_rate: float | None,
) -> Sequence[Advice]:
    """Advice for one flow.

    - `by_topic`: bytes of this month. `readers`: None if groups were not surveyed.
    - `samples`: of topics whose compression was measured.
    - `mean_rate`, `peak_rate`: bytes per second of the last week by hours; None if unknown.
    """
    found: list[Advice] = []
    moved = _Moved({name: used for name, used in by_topic.items() if used > 0}, month, price)
    if readers is None:
        if moved.by_topic:
            found.append(
                Advice("unsurveyed", "Groups were not read, so unread topics are unknown.")
            )
    else:
        found += _unread(moved, readers)
    found += _compression(moved, samples)
    if mean_rate and peak_rate and peak_rate > _PEAK_FACTOR * mean_rate:
        found.append(
            Advice(
                "peak",
                f"The busiest hour of the last week had {size(peak_rate)}/s, the mean was "
                f"{size(mean_rate)}/s. If the link is billed by its peak, `bandwidth.limit.bytes="
                f"{round(2 * mean_rate)}` halves it or more; the backlog of a peak is replicated "
                "later, so RPO grows meanwhile.",
            )
        )
    return found


@dataclasses.dataclass(frozen=True)
class _Moved:
    """Bytes of this month by topic, and what a part of them comes to in a whole month."""

    by_topic: Mapping[str, int]
    month: MonthCost
    price: Price | None

    def largest_first(self, names: Collection[str]) -> list[str]:
        return sorted(names, key=lambda name: (-self.by_topic[name], name))

    def used(self, names: Sequence[str]) -> str:
        """`90 GB this month, 45% of the flow`."""
        used = sum(self.by_topic[name] for name in names)
        return f"{size(used)} this month, {used / max(1, self._all):.0%} of the flow"

    def in_a_month(self, used: float) -> tuple[int | None, Decimal | None]:
        """Bytes of a whole month, and what they cost."""
        if self.month.forecast_bytes is None:
            return None, None
        expected = round(self.month.forecast_bytes * used / max(1, self._all))
        return expected, cost_of(expected, self.price)

    def cost_sentence(self, saves: Decimal | None) -> str:
        if saves is None or self.price is None:
            return ""
        return f" That is {money(saves, self.price.currency)} a month."

    @property
    def _all(self) -> int:
        return sum(self.by_topic.values())


def _unread(moved: _Moved, readers: Readers) -> list[Advice]:
    found = []
    # Understudy reads heartbeats itself.
    others = {name for name in moved.by_topic if not _HEARTBEATS.fullmatch(name)}
    unread = moved.largest_first(others - set(readers.read))
    if unread:
        expected, saves = moved.in_a_month(sum(moved.by_topic[name] for name in unread))
        text = (
            f"No consumer group has offsets in {_listed(unread)}, which took "
            f"{moved.used(unread)}.{moved.cost_sentence(saves)} Exclude what nobody needs."
        )
        found.append(Advice("unread", text, expected, saves))
    idle = {name: since for name, since in readers.idle.items() if since >= IDLE_AFTER}
    if names := moved.largest_first(moved.by_topic.keys() & idle.keys()):
        expected, saves = moved.in_a_month(sum(moved.by_topic[name] for name in names))
        days = min(idle[name] for name in names).days
        text = (
            f"For {days} days or more no consumer group has committed another offset in "
            f"{_listed(names)}, although records wait. Replicating took {moved.used(names)}."
            f"{moved.cost_sentence(saves)} Check whether their readers still run."
        )
        found.append(Advice("idle", text, expected, saves))
    return found


def _compression(moved: _Moved, samples: Mapping[str, CompressionSample]) -> list[Advice]:
    """Topics that would save the most first."""
    savings = {
        name: saving
        for name, sample in samples.items()
        if name in moved.by_topic and (saving := best_saving(sample)) is not None
    }
    saved = {name: moved.by_topic[name] * saving.share for name, saving in savings.items()}
    names = sorted(saved, key=lambda name: (-saved[name], name))[:_COMPRESSED]
    return [_compress(moved, name, samples[name], savings[name], saved[name]) for name in names]


def _compress(
    moved: _Moved, topic: str, sample: CompressionSample, saving: Saving, saved: float
) -> Advice:
    expected, saves = moved.in_a_month(saved)
    mean = sample.records / sample.batches
    codec = "is not compressed" if sample.codec == "none" else f"has {sample.codec}"
    has = f"{topic} {codec} and has {plural(round(mean), 'record')} per batch"
    what = {
        "codec": f"{CODEC} would send",
        "batches": f"Batches of {size(LARGE_BATCH_BYTES)} would send",
        "both": f"{CODEC} and batches of {size(LARGE_BATCH_BYTES)} would send",
    }[saving.change]
    how = {
        "codec": f"Set `compression.type={CODEC}` at its producers, which also saves disks and "
        f"reads of the source, or `producer.compression.type={CODEC}` of the flow, which "
        "compresses all its topics again.",
        "batches": f"Set {_LINGER} at its producers.",
        "both": f"Set `compression.type={CODEC}`, {_LINGER} at its producers.",
    }[saving.change]
    text = f"{has}, by a sample of {size(sample.bytes)}. {what} {saving.share:.0%} less"
    text += "." if expected is None else f": {size(expected)} a month."
    return Advice(
        "compression", f"{text}{moved.cost_sentence(saves)} {how}", expected, saves, topic
    )


def _listed(names: Sequence[str]) -> str:
    """`2 topics (a, b)`."""
    rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"{plural(len(names), 'topic')} ({', '.join(names[:_NAMED])}{rest})"
