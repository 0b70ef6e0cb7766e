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

While a partition has no leader nobody tells what hangs there. The coordinator forgets at a fence
how the whole ended, so our own topics are waited for before it; and a partition that could not be
looked at when an epoch begins is not written before it was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.errors import KafkaUnavailable
from spark_runner.lanes import remote_cut
from spark_runner.lanes.hanging import Hanging, open_in
from spark_runner.lanes.track import Track
from spark_runner.lanes.verdict import Verdict
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import Code
from spark_runner.wire.patience import Patience
from spark_runner.wire.transactions import Identity, ProducerLost

log = logging.getLogger(__name__)

AGAIN_S = 1.0
# A broker that hangs may cost the others so much less than it takes itself.
PATIENT = 9.0
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
        # Those that nobody told of when the epoch began, and when to ask again.
        self._unseen: dict[Track, float] = {}
        self._hanging = Hanging(target, identity)
        # Our transaction takes in what hangs: to abort it would abort what was committed.
        self.is_mending = False
        # How many connections had broken when the last transaction began to end.
        self._broken = target.broken

    def await_ledgers(self) -> None:
        """Before the fence; raises KafkaUnavailable when one of them has no leader for long."""
        self._hanging.await_leaders(self._ledgers)

    def mend_ledgers(self) -> None:
        """Behind the fence, before the positions are read: those that hang are not seen yet."""
        if self._identity.is_anonymous:
            return
        hanging = open_in(self._hanging.insist(self._ledgers))
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
        self._unseen = {}
        if self._transactional:
            states = self._hanging.states(odd)
            silent = self._hanging.untold(odd, states)
            silent |= {track for track in known if track.error is None} - ends.keys()
            self._unseen = dict.fromkeys(silent, 0.0)
            hanging = open_in(states)
            # Committed, as the position says, whatever others have written behind it.
            cut_short = [
                track
                for track, found in hanging.items()
                if found.start < track.there
                and self._identity.was_committed(found.epoch) is not False
            ]
            self._end(cut_short, commit=True)
            # Behind what is committed, so it is not.
            void = [track for track, found in hanging.items() if found.start >= track.there]
            self._end(void, commit=False)
            for track in (*cut_short, *(self._unseen.keys() & ends.keys())):
                del ends[track]
        return remote_cut.judge(ends, self._target.alias)

    def hang(self) -> bool:
        """Behind the fence: whether any partition needs to be mended."""
        return bool(open_in(self._hanging.states(self._tracks)))

    def joined(self, firsts: Mapping[Track, int]) -> set[Track]:
        """Those where our records, from this offset on, are in a transaction that began before."""
        hanging = open_in(self._hanging.states(firsts))
        return {track for track, found in hanging.items() if found.start < firsts[track]}

    def ending(self) -> None:
        """The transaction is about to end: what breaks from now on may cost it markers."""
        self._broken = self._target.broken

    def check(self, ready: Iterable[Track]) -> set[Track]:
        """Before anything is sent; returns those that have to wait until they can be looked at.

        Raises ProducerLost, for behind a fence all can be mended.
        """
        self._check_last()
        if not self._unseen:
            return set()
        waiting = self._unseen.keys() & set(ready)
        now = time.monotonic()
        if due := {track for track in waiting if now >= self._unseen[track]}:
            self._look_again(due, now)
        return waiting & self._unseen.keys()

    def _look_again(self, due: set[Track], began: float) -> None:
        ends = remote_cut.ends(self._target, due)
        odd = [track for track, end in ends.items() if end != track.there]
        if len(self._hanging.untold(odd, self._hanging.states(odd))) < len(odd):
            raise ProducerLost(Code.CONCURRENT_TRANSACTIONS, "mend what had no leader")
        now = time.monotonic()
        for track in due:
            if track in ends and track not in odd:
                del self._unseen[track]
            else:
                self._unseen[track] = now + max(AGAIN_S, PATIENT * (now - began))

    def _check_last(self) -> None:
        """Once the next transaction has something, the coordinator was done with the last one."""
        broken = self._target.broken
        if broken == self._broken or not self._transactional:
            return
        if not any(track.records for track in self._tracks) and not self._all_ended():
            raise ProducerLost(Code.CONCURRENT_TRANSACTIONS, "see the last transaction ended")
        self._broken = broken

    def _all_ended(self) -> bool:
        known = [
            track
            for track in self._tracks
            if track.there >= 0 and track.error is None and track not in self._unseen
        ]
        ends = remote_cut.ends(self._target, known)
        behind = [track for track in known if ends.get(track, -1) < track.there]
        return not behind and not self._hanging.still(self._ledgers)

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
        while left := self._hanging.still(tracks):
            if not patience.wait():
                break
        return left

    def _refused(self, first: str, how: str, why: str) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"Cluster {self._target.alias}: {first} lacks the end of a transaction that was {how}, "
            f"and it could not be written: {why}.",
            code="hanging_transaction",
        )
