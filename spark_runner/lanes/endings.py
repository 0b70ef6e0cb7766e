"""Whether the last transaction has ended in each partition that it wrote; if not, it is ended.

The rule is `mirrors.kafka.producers.hanging`. Here is what it means for a slice: how the whole
ended is told for data by the committed positions, for our own topics, which are read before, by the
coordinator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirrors.kafka.producers.cluster import Place
from mirrors.kafka.producers.described import Open
from mirrors.kafka.producers.hanging import Hanging
from mirrors.kafka.producers.identity import Identity, ProducerLost
from spark_runner.lanes import remote_cut
from spark_runner.lanes.track import Track
from spark_runner.lanes.verdict import Verdict
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import Code


class Endings:
    """One for an epoch of a slice: its tracks, and those of our own topics."""

    def __init__(
        self,
        target: ClusterClient,
        identity: Identity,
        tracks: Iterable[Track],
        ledgers: Iterable[Track],
        *,
        transactional: bool,
    ) -> None:
        self._target = target
        self._identity = identity
        self._tracks = list(tracks)
        self._ledgers = _places(ledgers)
        self._known = _places(self._tracks) | self._ledgers
        self._hanging = Hanging(target, identity, self._leaders, self._ledgers)
        self._transactional = transactional
        # How many connections had broken when the last transaction began to end.
        self._broken = target.broken

    @property
    def is_mending(self) -> bool:
        """What is open now has taken in what was committed: nobody may abort it."""
        return self._hanging.is_mending

    def fence(self, deadline: float) -> None:
        """Take the slice's id: how the last transaction ended is kept, if that is still needed."""
        self._identity.fence(deadline, may_hang=self._hanging.may_hang)

    def mend_ledgers(self) -> None:
        """Behind the fence, before the positions are read: those that hang are not seen yet."""
        if not self._identity.is_anonymous:
            self._hanging.mend()

    def begin(self) -> dict[Track, Verdict]:
        """The tracks stand at their committed positions; tells those that were cut."""
        self._broken = self._target.broken
        known = [track for track in self._tracks if track.there >= 0]
        ends = remote_cut.ends(self._target, known)
        odd = [track for track, end in ends.items() if end != track.there]
        if self._transactional and odd:
            hanging = self._find(odd)
            cut_short = [
                track
                for track, found in hanging.items()
                if found.start < track.there == ends[track] + 1
            ]
            self._hanging.end(list(_places(cut_short)), commit=True)
            # Behind what is committed, so it is not.
            void = [track for track, found in hanging.items() if found.start >= track.there]
            self._hanging.end(list(_places(void)), commit=False)
            ends |= remote_cut.ends(self._target, cut_short)
        return remote_cut.judge(ends, self._target.alias)

    def hang(self) -> bool:
        """Behind the fence: whether any partition needs to be mended."""
        return bool(self._find(self._tracks))

    def joined(self, firsts: Mapping[Track, int]) -> set[Track]:
        """Those where our records, from this offset on, are in a transaction that began before."""
        return {track for track, found in self._find(firsts).items() if found.start < firsts[track]}

    def ending(self) -> None:
        """The transaction is about to end: what breaks from now on may cost it markers."""
        self._broken = self._target.broken

    def check(self) -> None:
        """Before anything is sent; raises ProducerLost, for behind a fence all can be mended.

        Once the next transaction has something, the coordinator was done with the last one.
        """
        broken = self._target.broken
        if broken == self._broken or not self._transactional:
            return
        if not any(track.records for track in self._tracks) and not self._all_ended():
            raise ProducerLost(Code.CONCURRENT_TRANSACTIONS, "see the last transaction ended")
        self._broken = broken

    def _all_ended(self) -> bool:
        known = [track for track in self._tracks if track.there >= 0 and track.error is None]
        ends = remote_cut.ends(self._target, known)
        behind = [track for track in known if ends.get(track, -1) < track.there]
        return not behind and not self._hanging.unended(self._ledgers)

    def _find(self, tracks: Iterable[Track]) -> dict[Track, Open]:
        found = self._hanging.find(_places(tracks))
        return {self._known[place]: row for place, row in found.items()}

    def _leaders(self, places: Iterable[Place], deadline: float) -> dict[Place, int]:
        wanted = {place: self._known[place] for place in places}
        led = remote_cut.by_leader(self._target, wanted, deadline)
        return {
            (topic, partition): node for node, rows in led.items() for topic, partition, _ in rows
        }


def _places(tracks: Iterable[Track]) -> dict[Place, Track]:
    return {(track.remote_topic, track.partition): track for track in tracks}
