"""A slice's share of its flow's bandwidth: when it may read, and how much at once."""

from __future__ import annotations

import time

from mirrors.domain.flows.bandwidth import TokenBucket
from mirrors.domain.topics.priority import WEIGHTS, PriorityRules
from mirrors.kafka.quotas import describe_lateness
from spark_runner.engine.source.priority import ReadPriority
from spark_runner.ipc.messages import SliceWork
from spark_runner.ipc.task_channel import Channel

# The slice reports its share as the limit if it was limited this recently.
_LATELY_S = 1.0
# Quotas of brokers are reported for longer, so that the sentence does not flicker.
_SHOWN_S = 5.0


class Throttle:
    """Until the driver sends a share, it is an even part of the limit."""

    def __init__(self, work: SliceWork, channel: Channel) -> None:
        settings = work.spec.settings
        limit = settings.bandwidth_limit_bytes
        ranks = PriorityRules(settings)
        # Order of reading; None where the flow has no priority classes.
        self.priority = ReadPriority(ranks) if ranks.are_used else None
        self._first = None if limit is None else max(1, limit // max(1, work.count))
        self._channel = channel
        self._bucket = TokenBucket(self._first, time.monotonic())
        self._held_at = float("-inf")
        # When reading is allowed again, as last asked for.
        self.held_until = 0.0
        self._aliases = work.source.alias, work.target.alias

    @property
    def is_limited(self) -> bool:
        """Whether the share limited the slice a moment ago."""
        return self._bucket.rate is not None and time.monotonic() - self._held_at < _LATELY_S

    @property
    def quota(self) -> str:
        """A sentence when a quota of source or target brokers throttles the slice."""
        stated = (describe_lateness(alias, _SHOWN_S) for alias in self._aliases)
        return " ".join(words for words in stated if words)

    @property
    def has_limit(self) -> bool:
        """Whether there is a limit."""
        return self._bucket.rate is not None

    @property
    def weight(self) -> int:
        """Weight of the slice among the flow's slices that are limited too."""
        return WEIGHTS["normal"] if self.priority is None else self.priority.weight

    def opens_at(self, now: float) -> float:
        """When reading is allowed; `now` if it is allowed already."""
        self._bucket.set_rate(self._channel.share(self._first), now)
        moment = self.held_until = self._bucket.opens_at(now)
        if moment > now:
            self._held_at = now
        return moment

    def record_read(self, size: int, now: float) -> None:
        self._bucket.take(size, now)

    def most(self, largest: int) -> int:
        return self._bucket.most(largest)
