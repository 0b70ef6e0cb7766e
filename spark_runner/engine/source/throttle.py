"""A slice's share of its flow's bandwidth: may a lane read on, and how much at once."""

from __future__ import annotations

import time

from mirrors.domain.flows.bandwidth import Bucket
from mirrors.domain.topics.priority import WEIGHTS, Ranks
from mirrors.kafka.quotas import slow_words
from spark_runner.engine.source.priority import ReadPriority
from spark_runner.ipc.messages import SliceWork
from spark_runner.ipc.task_channel import Channel

# Held back so lately, the slice says that its share is what holds it.
_LATELY_S = 1.0
# And a quota of a broker: so a sentence does not flicker.
_SHOWN_S = 5.0


class Throttle:
    """Until the driver says otherwise, the share is an even part of the limit."""

    def __init__(self, work: SliceWork, channel: Channel) -> None:
        settings = work.spec.settings
        limit = settings.bandwidth_limit_bytes
        ranks = Ranks(settings)
        # What is read first; None where the flow makes no difference.
        self.priority = ReadPriority(ranks) if ranks.are_used else None
        self._first = None if limit is None else max(1, limit // max(1, work.count))
        self._channel = channel
        self._bucket = Bucket(self._first, time.monotonic())
        self._held_at = float("-inf")
        self._aliases = work.source.alias, work.target.alias

    @property
    def is_limited(self) -> bool:
        """Whether the share held the slice back a moment ago."""
        return self._bucket.rate is not None and time.monotonic() - self._held_at < _LATELY_S

    @property
    def quota(self) -> str:
        """What to say where a quota of the source's or target's brokers throttles the slice."""
        stated = (slow_words(alias, _SHOWN_S) for alias in self._aliases)
        return " ".join(words for words in stated if words)

    @property
    def holds(self) -> bool:
        """Whether there is a limit at all."""
        return self._bucket.rate is not None

    @property
    def weight(self) -> int:
        """What the slice counts beside the flow's others that are held back too."""
        return WEIGHTS["normal"] if self.priority is None else self.priority.weight

    def opens_at(self, now: float) -> float:
        """When something may be read; `now` when it may be at once."""
        self._bucket.set_rate(self._channel.share(self._first), now)
        moment = self._bucket.opens_at(now)
        if moment > now:
            self._held_at = now
        return moment

    def took(self, size: int, now: float) -> None:
        self._bucket.take(size, now)

    def most(self, largest: int) -> int:
        return self._bucket.most(largest)
