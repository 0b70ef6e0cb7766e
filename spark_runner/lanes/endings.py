"""Whether the last transaction has ended in each partition that it wrote.

A broker that dies while the markers of a commit are written may leave some out for good when it is
back (Kafka 4.3.1: what has no leader by then it takes for deleted, TransactionMarkerChannelManager;
KIP-664 calls the rest a hanging transaction). Readers wait before it, and our next transaction
there becomes a part of it: aborted, it takes what was committed with it. So before anything is
written there it is ended as the whole was, by a transaction of ours that has nothing else in it:
its marker takes the very place of the missing one.

How the whole ended is told for data by the committed positions, for our own topics, which are read
before, by the coordinator (`Identity.was_committed`). A broker that has just come back may leave
out the markers of that transaction as well, so it is seen that nothing hangs any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.errors import KafkaUnavailable, UnderstudyError
from spark_runner.lanes import remote_cut
from spark_runner.lanes.track import Track
from spark_runner.lanes.verdict import Verdict
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import Code
from spark_runner.wire.described import Open, open_transactions
from spark_runner.wire.patience import Patience, until_answered
from spark_runner.wire.transactions import Identity, ProducerLost

log = logging.getLogger(__name__)

LOOK_S = 3.0
# Brokers keep a transaction open for a minute and more: until then what was begun can be ended.
END_S = 50.0
SEEN_S = 0.5


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
        self._ledgers = list(ledgers)
        self._transactional = transactional
        # Our transaction takes in what hangs: to abort it would abort what was committed.
        self.is_mending = False
        # How many connections had broken when the last transaction began to end.
        self._broken = target.broken

    def mend_ledgers(self) -> None:
        """Behind the fence, before the positions are read: those that hang are not seen yet."""
        if self._identity.is_anonymous:
            return
        hanging = self._hanging(self._ledgers)
        for commit in (True, False):
            self._end(
                [
                    track
                    for track, found in hanging.items()
                    if self._identity.was_committed(found.epoch) is commit
                ],
                commit=commit,
            )

    def begin(self) -> dict[Track, Verdict]:
        """The tracks stand at their committed positions; tells those that were cut."""
        self._broken = self._target.broken
        known = [track for track in self._tracks if track.there >= 0]
        ends = remote_cut.ends(self._target, known)
        odd = [track for track, end in ends.items() if end != track.there]
        if self._transactional and odd:
            hanging = self._hanging(odd)
            cut_short = [
                track
                for track, found in hanging.items()
                if found.start < track.there == ends[track] + 1
            ]
            self._end(cut_short, commit=True)
            # Behind what is committed, so it is not.
            void = [track for track, found in hanging.items() if found.start >= track.there]
            self._end(void, commit=False)
            ends |= remote_cut.ends(self._target, cut_short)
        return remote_cut.judge(ends, self._target.alias)

    def hang(self) -> bool:
        """Behind the fence: whether any partition needs to be mended."""
        return bool(self._hanging(self._tracks))

    def joined(self, firsts: Mapping[Track, int]) -> set[Track]:
        """Those where our records, from this offset on, are in a transaction that began before."""
        return {
            track for track, found in self._hanging(firsts).items() if found.start < firsts[track]
        }

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
        return not behind and not self._still_hanging(self._ledgers)

    def _hanging(self, tracks: Iterable[Track]) -> dict[Track, Open]:
        """Those in which a transaction of ours is open, though behind the fence none should be."""
        states = self._states(tracks)
        return {track: found for track, found in states.items() if found is not None}

    def _still_hanging(self, tracks: Iterable[Track]) -> list[Track]:
        """Those of which nobody says that none is open."""
        states = self._states(tracks)
        return [track for track in tracks if track not in states or states[track] is not None]

    def _states(self, tracks: Iterable[Track]) -> dict[Track, Open | None]:
        """Of those that can be looked at now."""
        places = {(track.remote_topic, track.partition): track for track in tracks}
        found: dict[Track, Open | None] = {}
        deadline = time.monotonic() + LOOK_S

        def look() -> None:
            for wanted in remote_cut.by_leader(self._target, places, deadline).values():
                rows = open_transactions(self._target, wanted, self._identity.producer_id, deadline)
                found.update((places[place], row) for place, row in rows.items())

        try:
            until_answered(look, deadline)
        except UnderstudyError as error:
            log.warning("whether transactions hang is not known yet: %s", error.message)
        return found

    def _end(self, tracks: list[Track], *, commit: bool) -> None:
        patience = Patience(time.monotonic() + END_S)
        how = "committed" if commit else "aborted"
        while tracks:
            first = f"{tracks[0].remote_topic}-{tracks[0].partition}"
            log.warning(
                "cluster %s: the end of a transaction that was %s is missing in %s of our "
                "partitions, first %s: it is written now",
                self._target.alias,
                how,
                len(tracks),
                first,
            )
            try:
                self._transact(tracks, commit)
            except ProducerLost as lost:
                raise self._refused(first, how, str(lost)) from None
            tracks = self._seen_ended(tracks)
            if tracks and not patience.wait():
                raise self._refused(first, how, "its broker left it out again")

    def _transact(self, tracks: list[Track], commit: bool) -> None:
        deadline = time.monotonic() + END_S
        places = [(track.remote_topic, track.partition) for track in tracks]
        self.is_mending = commit
        if len(self._identity.add(places, deadline)) < len(places):
            self._identity.end(commit=commit, deadline=deadline)
        self.is_mending = False

    def _seen_ended(self, tracks: list[Track]) -> list[Track]:
        """Waits for the markers, which are written behind the reply; those without them."""
        patience = Patience(time.monotonic() + SEEN_S)
        while left := self._still_hanging(tracks):
            if not patience.wait():
                break
        return left

    def _refused(self, first: str, how: str, why: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"Cluster {self._target.alias}: {first} lacks the end of a transaction that was {how}, "
            f"and it could not be written: {why}.",
            code="hanging_transaction",
        )
