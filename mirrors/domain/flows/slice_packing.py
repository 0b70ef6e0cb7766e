"""Which slice copies which partition: packing by weight, and when observed bytes justify another.

Another packing fences every slice, so all partitions wait for seconds. It is made only when it
pays, while the pause is small, and each one waits longer than the one before. Times are seconds of
one clock, handed in.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self, get_args

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.formatting import size

# Bytes of a partition count less by half with each of these.
HALF_LIFE_S = 180.0
# Observed for so long, the rates of a partition say how busy it is.
OBSERVE_S = 600.0
# The busiest slice has this many times an even share: uneven from the first on, until the second.
UNEVEN_FROM = 1.5
EVEN_BELOW = 1.25
# Another packing lowers the busiest slice by at least this part of its bytes.
LEAST_GAIN = 0.2
# Uneven for so long without an interruption.
HOLD_S = 300.0
# After a packing by observed bytes; each later one of the same job waits twice as long.
REST_S = 1800.0
LONGEST_REST_S = 86_400.0
# What a partition costs beside its bytes, as a part of what a mean partition copies.
FIXED_COST = 0.05
# Below, one slice could copy all of it.
LEAST_BYTES = 1 << 20
# A pause of seconds is small while no record waits as long as the first, or one waits longer than
# the second.
IN_STEP_S = 10.0
FAR_BEHIND_S = 60.0


def assign_slices(
    weights: Mapping[TopicPartition, float],
    most: int,
    present: Mapping[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """Return the slice index of each partition.

    - At most `most` slices, or the present number if that is higher. Indexes are 0, 1, 2, … without
      gaps.
    - A partition keeps its slice, also when fewer slices are allowed than before. Each slice fences
      only its own predecessors: a slice that took over a partition from another slice could read
      its position while the other one still copies.
    - New partitions go to the slice with the least weight, heaviest first.
    """
    present = present or {}
    assigned = {tp: present[tp] for tp in weights if tp in present}
    count = max([min(most, len(weights)), *(index + 1 for index in assigned.values())], default=0)
    loads = [0.0] * count
    for tp, index in assigned.items():
        loads[index] += weights[tp] + 1
    for tp in sorted(weights.keys() - assigned.keys(), key=lambda p: (-weights[p], p)):
        lightest = min(range(min(most, count)), key=loads.__getitem__)
        assigned[tp] = lightest
        loads[lightest] += weights[tp] + 1
    return assigned


def packing_weights(
    rates: Mapping[TopicPartition, float], partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, float]:
    """Return a weight for each partition: its bytes per second, and a part for being there at all.

    Without that part, one slice would get all idle partitions.
    """
    known = {tp: rates.get(tp, 0.0) for tp in partitions}
    fixed = FIXED_COST * sum(known.values()) / max(1, len(known))
    return {tp: rate + fixed for tp, rate in known.items()}


def rest_after(times: int) -> float:
    """Return the seconds to wait after the `times`-th change in a row: twice as long each time."""
    return float(min(REST_S * 2 ** min(times - 1, 10), LONGEST_REST_S))


class ByteRates:
    """Bytes per second of each partition; older bytes count less."""

    def __init__(self) -> None:
        self._rates: dict[TopicPartition, tuple[float, float]] = {}

    def add(self, tp: TopicPartition, copied: int, now: float) -> None:
        rate, at = self._rates.get(tp, (0.0, now))
        added = copied * math.log(2) / HALF_LIFE_S
        self._rates[tp] = rate * _left(now - at) + added, now

    def at(self, now: float) -> dict[TopicPartition, float]:
        return {tp: rate * _left(now - at) for tp, (rate, at) in self._rates.items()}


def _left(seconds: float) -> float:
    return float(0.5 ** (max(0.0, seconds) / HALF_LIFE_S))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Balance:
    """How the observed bytes of a flow are distributed over its slices.

    - `ratio`: bytes of the busiest slice relative to an even share; at least 1.
    - `best`: the same after packing by observed bytes.
    - `busiest`: index of the busiest slice. `share`: its part of all bytes, 0 to 1.
    - `largest`: the busiest partition, and its part of all bytes.
    """

    slices: int
    bytes_per_second: float
    busiest: int
    ratio: float
    best: float
    largest: str
    largest_share: float

    @property
    def share(self) -> float:
        return self.ratio / self.slices

    @property
    def gain(self) -> float:
        """The part of its bytes that the busiest slice would lose, 0 to 1."""
        return max(0.0, 1 - self.best / self.ratio)


def balance_of(
    rates: Mapping[TopicPartition, float], slices: Mapping[TopicPartition, int], count: int
) -> Balance | None:
    """Return None for fewer than two slices, or when nothing was copied.

    `slices`: the slice of each partition that is copied; others are left out.
    """
    known = {tp: rates.get(tp, 0.0) for tp in slices}
    total = sum(known.values())
    if count < 2 or total <= 0:
        return None
    loads = _loads(known, slices, count)
    packed = _loads(known, assign_slices(packing_weights(known, known), count), count)
    busiest = max(range(count), key=loads.__getitem__)
    largest = max(known, key=lambda tp: (known[tp], tp))
    even = total / count
    return Balance(
        slices=count,
        bytes_per_second=total,
        busiest=busiest,
        ratio=loads[busiest] / even,
        # A packing that happens to be better than the computed one is kept.
        best=min(max(packed), loads[busiest]) / even,
        largest=f"{largest[0]}-{largest[1]}",
        largest_share=known[largest] / total,
    )


def _loads(
    rates: Mapping[TopicPartition, float], slices: Mapping[TopicPartition, int], count: int
) -> list[float]:
    loads = [0.0] * count
    for tp, rate in rates.items():
        loads[slices[tp]] += rate
    return loads


State = Literal["unknown", "even", "idle", "indivisible", "waits", "due"]
STATES: tuple[State, ...] = get_args(State)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PackingVerdict:
    """Whether the slices are packed again now, and why as a sentence; `ratio` may be unknown."""

    state: State
    reason: str
    ratio: float | None = None
    best: float | None = None
    # How often this job has packed its slices by observed bytes, and when last (epoch ms).
    packings: int = 0
    packed_at: int | None = None

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> Self | None:
        """None for an empty dictionary. Fields of a later version are ignored."""
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in raw.items() if name in known}) if raw else None


NOT_OBSERVED = PackingVerdict(
    state="unknown", reason="The distribution of bytes over the slices was not observed yet."
)


@dataclasses.dataclass(frozen=True)
class PackingMemory:
    """What the decision remembers of a job.

    - `since`: when bytes were first observed under the present packing.
    - `uneven_since`: since when the slices are uneven; None while they are not.
    - `packings`, `packed_at`: how often and when they were packed by observed bytes.
    """

    since: float
    uneven_since: float | None = None
    packings: int = 0
    packed_at: float | None = None

    def observe(self, balance: Balance | None, now: float) -> PackingMemory:
        """Uneven begins at one ratio and ends at a lower one, so a ratio between them changes
        nothing."""
        if balance is None or balance.ratio < EVEN_BELOW:
            return dataclasses.replace(self, uneven_since=None)
        if self.uneven_since is None and balance.ratio >= UNEVEN_FROM:
            return dataclasses.replace(self, uneven_since=now)
        return self

    def packed(self, now: float) -> PackingMemory:
        return PackingMemory(since=now, packings=self.packings + 1, packed_at=now)

    @property
    def may_pack_from(self) -> float:
        """The earliest time of the next packing."""
        ready = self.since + OBSERVE_S
        if self.packed_at is None:
            return ready
        return max(ready, self.packed_at + rest_after(self.packings))


def judge_packing(
    balance: Balance | None, memory: PackingMemory, *, lag_s: float | None, now: float
) -> PackingVerdict:
    """Decide whether to pack the slices by observed bytes now.

    `memory`: after `observe` of this balance. `lag_s`: age of the oldest record that was not
    copied; None if it is unknown.
    """
    if balance is None:
        return NOT_OBSERVED
    head = (
        f"Slice {balance.busiest} copies {balance.share:.0%} of the bytes, "
        f"{balance.ratio:.1f} times an even share of {balance.slices} slices."
    )
    state, reason = _decide(balance, memory, lag_s, now)
    words = f"{head} {reason}" if state != "even" else reason
    return PackingVerdict(
        state=state, reason=words, ratio=balance.ratio, best=balance.best, packings=memory.packings
    )


def _decide(
    balance: Balance, memory: PackingMemory, lag_s: float | None, now: float
) -> tuple[State, str]:
    if memory.uneven_since is None:
        return "even", (
            f"The bytes are distributed evenly: the busiest of {balance.slices} slices has "
            f"{balance.ratio:.1f} times an even share."
        )
    if balance.gain < LEAST_GAIN:
        return "indivisible", (
            f"Another packing would not help: {balance.largest} alone has "
            f"{balance.largest_share:.0%} of the bytes, and a partition cannot be divided."
        )
    if balance.bytes_per_second < LEAST_BYTES:
        return "idle", (f"At {size(balance.bytes_per_second)} per second it does not matter.")
    better = f"Packed by observed bytes it would be {balance.best:.1f} times."
    ready = max(memory.may_pack_from, memory.uneven_since + HOLD_S)
    if now < ready:
        return "waits", f"{better} That is decided in {_minutes(ready - now)} if it stays so."
    if lag_s is None:
        return "waits", f"{better} That waits until the lag of all partitions is known."
    if IN_STEP_S < lag_s < FAR_BEHIND_S:
        return "waits", (
            f"{better} That waits until the flow has caught up: a pause of seconds would delay "
            "its records noticeably now."
        )
    return "due", better


def _minutes(seconds: float) -> str:
    minutes = max(1, math.ceil(seconds / 60))
    return f"{minutes} minute{'' if minutes == 1 else 's'}"
