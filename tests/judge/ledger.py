"""The ledger: every record the judge produced and every offset it committed.

A record has a value of its own, so a copy is recognized wherever it lies. A topic that is deleted
and created again is another generation: its old records are gone, and the new ones are owed.
Moments are epoch milliseconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

TopicPartition = tuple[str, int]
# A statement and what it was computed from are this far apart at most.
ASKED_WITHIN_MS = 3_000
# So soon every statement shows a topic that was created, grown or created again.
SHOWN_WITHIN_MS = 8_000


@dataclasses.dataclass
class Record:
    """One record of the source.

    `visible_at`: a reader of committed records could read it from then on; None while its
    transaction is open and for ever when that was aborted. `gone_at`: it was deleted there.
    `given_up_at`: a person accepted that the target lost its copy.
    """

    offset: int
    value: str
    sent_at: int
    visible_at: int | None
    gone_at: int | None = None
    given_up_at: int | None = None

    def is_there(self, at: int) -> bool:
        """Whether a reader of committed records finds it at that moment."""
        if self.visible_at is None or self.visible_at > at:
            return False
        return self.gone_at is None or self.gone_at > at


@dataclasses.dataclass
class Generation:
    """One life of a topic: its partitions with their records in the order of their offsets.

    `changed_at`: when it was created or got partitions.
    """

    topic: str
    number: int
    changed_at: int
    partitions: dict[int, list[Record]]
    deleted_at: int | None = None

    def records(self, partition: int | None = None) -> Iterator[Record]:
        for number, records in self.partitions.items():
            if partition is None or number == partition:
                yield from records


class Commit(NamedTuple):
    """A group's offset in one partition of one generation of a topic."""

    generation: int
    offset: int
    at: int


class TargetReading(NamedTuple):
    """What one look at the target found: the values in each remote partition, and when it began.

    `is_most`: nobody could look, and these are the values that may be there at most.
    """

    at: int
    values: Mapping[TopicPartition, Collection[str]]
    is_most: bool = False


class Bounds(NamedTuple):
    """How many records were really owed at a moment; `most` is None where nobody looked earlier."""

    least: int
    most: int | None


class Ledger:
    """Topics, records, commits, and what was seen of the target. `remote` names the copies."""

    def __init__(self, prefix: str) -> None:
        self.topics: dict[str, list[Generation]] = {}
        self.commits: dict[tuple[str, str, int], Commit] = {}
        self.looks: list[TargetReading] = []
        # When copies were deleted on the target: of moments before, nothing is sure.
        self.copies_lost_at = 0
        self._prefix = prefix

    def remote(self, topic: str) -> str:
        return f"{self._prefix}{topic}"

    def create(self, topic: str, partitions: int, at: int) -> Generation:
        lives = self.topics.setdefault(topic, [])
        empty: dict[int, list[Record]] = {number: [] for number in range(partitions)}
        lives.append(Generation(topic, len(lives), at, empty))
        return lives[-1]

    def grow(self, topic: str, partitions: int, at: int) -> None:
        generation = self.current(topic)
        assert generation is not None
        generation.changed_at = at
        for number in range(len(generation.partitions), partitions):
            generation.partitions[number] = []

    def delete(self, topic: str, at: int) -> None:
        generation = self.current(topic)
        assert generation is not None
        generation.deleted_at = at
        for record in generation.records():
            record.gone_at = record.gone_at or at

    def truncate(self, topic: str, partition: int, start: int, at: int) -> None:
        """The source deleted what lies below `start`."""
        generation = self.current(topic)
        assert generation is not None
        for record in generation.partitions[partition]:
            if record.offset < start:
                record.gone_at = record.gone_at or at

    def give_up(self, topic: str, partition: int, end: int, at: int | None) -> None:
        """A person accepts the loss of copies below the offset `end`; None: they come again."""
        generation = self.current(topic)
        if generation is None:
            return
        for record in generation.partitions.get(partition, ()):
            if record.offset < end:
                record.given_up_at = at

    def given_up(self, at: int) -> set[str]:
        """Topics with records that were given up by then, that the source still holds and the
        target does not."""
        copies = self.looks[-1].values if self.looks else {}
        return {
            generation.topic
            for generation in self.living()
            for number, records in generation.partitions.items()
            for record in records
            if record.given_up_at is not None
            and record.given_up_at <= at
            and record.is_there(at)
            and record.value not in copies.get((self.remote(generation.topic), number), ())
        }

    def lose_copies(self, at: int) -> None:
        """Copies were deleted on the target, so what was seen before says nothing now."""
        self.looks.clear()
        self.copies_lost_at = at

    def target_died(self, at: int) -> None:
        """Nothing is copied until the next look: at most what was sent by then is there."""
        values: dict[TopicPartition, set[str]] = {}
        for generation in self._lives(None):
            for number, records in generation.partitions.items():
                sent = {record.value for record in records if record.sent_at <= at}
                values.setdefault((self.remote(generation.topic), number), set()).update(sent)
        self.looks.append(TargetReading(at, values, is_most=True))

    def current(self, topic: str) -> Generation | None:
        """The life that the source holds now; None of a topic that is deleted."""
        lives = self.topics.get(topic)
        return lives[-1] if lives and lives[-1].deleted_at is None else None

    def living(self) -> list[Generation]:
        found = (self.current(topic) for topic in self.topics)
        return [generation for generation in found if generation is not None]

    def commit(self, group: str, topic: str, partition: int, offset: int, at: int) -> None:
        generation = self.current(topic)
        assert generation is not None
        self.commits[group, topic, partition] = Commit(generation.number, offset, at)

    def owed(self, at: int, topic: str | None = None, partition: int | None = None) -> Bounds:
        """What was owed at `at`, from the looks before and after it.

        Copies only become more: what the newest look misses was missing then too, and what a look
        before then had found was copied by then.
        """
        newest = self.looks[-1]
        looked = (look for look in reversed(self.looks) if look.at <= at and not look.is_most)
        earlier = next(looked, None)
        least = most = 0
        for generation in self._lives(topic):
            for number, records in generation.partitions.items():
                if partition is not None and number != partition:
                    continue
                tp = self.remote(generation.topic), number
                copied = newest.values.get(tp, ())
                before = earlier.values.get(tp, ()) if earlier else ()
                is_old = generation.changed_at <= at - SHOWN_WITHIN_MS
                for record in records:
                    least += is_old and _is_owed(record, at) and record.value not in copied
                    most += _may_be_owed(record, at) and record.value not in before
        if at < self.copies_lost_at + SHOWN_WITHIN_MS:
            least = 0
        return Bounds(least, None if earlier is None else most)

    def owed_until(
        self, at: int, now: int, topic: str | None = None, partition: int | None = None
    ) -> Bounds:
        """For a lower bound: `at` is the oldest observation in it, others were made up to now."""
        then = self.owed(at, topic, partition)
        since = self.owed(now, topic, partition).most
        most = None if then.most is None or since is None else max(then.most, since)
        return Bounds(then.least, most)

    def oldest_owed(self, at: int, topic: str | None = None) -> int | None:
        """Since when the oldest of the records that were surely owed at `at` was visible."""
        copies = self.looks[-1].values
        if at < self.copies_lost_at + SHOWN_WITHIN_MS:
            return None
        return min(
            (
                record.sent_at
                for generation in self._lives(topic)
                for number, records in generation.partitions.items()
                for record in records
                if generation.changed_at <= at - SHOWN_WITHIN_MS
                and _is_owed(record, at)
                and record.value not in copies.get((self.remote(generation.topic), number), ())
            ),
            default=None,
        )

    def _lives(self, topic: str | None) -> Iterator[Generation]:
        for name, lives in self.topics.items():
            if topic is None or name == topic:
                yield from lives


def _is_owed(record: Record, at: int) -> bool:
    """Whether it was there at `at`, and still is: what is gone since may have been gone then."""
    is_asked = record.gone_at is None and record.given_up_at is None
    return is_asked and record.is_there(at - ASKED_WITHIN_MS)


def _may_be_owed(record: Record, at: int) -> bool:
    """Whether a source that was asked about `at` may have held it."""
    if record.visible_at is None or record.sent_at > at + ASKED_WITHIN_MS:
        return False
    return record.gone_at is None or record.gone_at > at
