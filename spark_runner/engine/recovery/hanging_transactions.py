"""Whether the last transaction has ended in each partition that it wrote; if not, it is ended.

The rule is `mirrors.kafka.producers.hanging_transactions`. Here is what it means for a slice:
how the whole
ended is told for data by the committed positions, for our own topics, which are read before, by the
coordinator.

While a partition has no leader nobody tells what hangs there, so one that could not be looked at
when an epoch begins is not written before it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.cluster import Place
from mirrors.kafka.producers.hanging_transactions import Hanging
from mirrors.kafka.producers.producer_id import Identity, ProducerLost
from mirrors.kafka.producers.transaction_state import Open
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.recovery import target_truncation, truncated_positions
from spark_runner.kafka_protocol.cluster import ClusterClient

AGAIN_S = 1.0
# A broker that hangs may cost the others so much less than it takes itself.
PATIENT = 9.0


class Endings:
    """One for an epoch of a slice: its tracks, and those of our own topics.

    `own` tells under which producer ids the flow writes, by a deadline; `say_again` has positions
    written down once more.
    """

    def __init__(
        self,
        target: ClusterClient,
        identity: Identity,
        tracks: Iterable[Track],
        ledgers: Iterable[Track],
        *,
        transactional: bool,
        own: Callable[[float], set[int]],
        say_again: Callable[[Iterable[Track]], None],
    ) -> None:
        self._target = target
        self._identity = identity
        self._tracks = list(tracks)
        self._ledgers = _places(ledgers)
        self._known = _places(self._tracks) | self._ledgers
        self._hanging = Hanging(target, identity, self._leaders, self._ledgers)
        self._transactional = transactional
        self._own, self._say_again = own, say_again
        # Those whose positions may be older than what was committed; not what at least once left
        # behind them, which is counted as repeated.
        self.doubted: set[Track] = set()
        # Those that nobody told of when the epoch began, and when to ask again.
        self._unseen: dict[Track, float] = {}
        # Another topic has that name now, which is told by its id.
        self._replaced: set[Track] = set()
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
        """The tracks stand at their committed positions; tells those that were cut, or whose
        positions are not the last ones."""
        self._broken = self._target.broken
        known = [track for track in self._tracks if track.there >= 0]
        ends = target_truncation.ends(self._target, known)
        self._unseen = {}
        if self._transactional:
            odd = {track for track, end in ends.items() if end != track.there}
            silent = {track for track in known if track.error is None} - ends.keys()
            states = self._states(odd | silent)
            silent |= odd - states.keys()
            self._unseen = dict.fromkeys(silent - self._replaced, 0.0)
            for track in self._mend({track: states[track] for track in odd & states.keys()}):
                del ends[track]
            for track in self._unseen.keys() & ends.keys():
                del ends[track]
        return target_truncation.judge(ends, self._target.alias) | self._lost_positions(ends)

    def _lost_positions(self, ends: Mapping[Track, int]) -> dict[Track, Verdict]:
        if not self._transactional:
            return {}
        doubted = {
            track: end for track, end in ends.items() if track in self.doubted and end > track.there
        }
        lost, looked_at = truncated_positions.judge(self._target, doubted, self._own)
        # Not to be looked at in each epoch.
        self._say_again(looked_at)
        return lost

    def _mend(self, states: Mapping[Track, Open | None]) -> list[Track]:
        """End what hangs in the data; those in which it was committed, as the position says."""
        hanging = {track: found for track, found in states.items() if found is not None}
        of = self._identity.last_end.of
        cut_short = [
            track
            for track, found in hanging.items()
            # Whatever others have written behind it.
            if found.start < track.there and of(found.epoch) is not False
        ]
        self._hanging.end(list(_places(cut_short)), commit=True)
        # Behind what is committed, so it is not.
        void = [track for track, found in hanging.items() if found.start >= track.there]
        self._hanging.end(list(_places(void)), commit=False)
        return cut_short

    def hang(self) -> bool:
        """Behind the fence: whether any partition needs to be mended."""
        return any(self._states(self._tracks).values())

    def joined(self, firsts: Mapping[Track, int]) -> set[Track]:
        """Those where our records, from this offset on, are in a transaction that began before."""
        return {
            track
            for track, found in self._states(firsts).items()
            if found is not None and found.start < firsts[track]
        }

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
        ends = target_truncation.ends(self._target, due)
        odd = {track for track, end in ends.items() if end != track.there}
        told = self._states(odd | (due - ends.keys()))
        if odd & (told.keys() | self._replaced):
            raise ProducerLost(Code.CONCURRENT_TRANSACTIONS, "mend what had no leader")
        now = time.monotonic()
        for track in due:
            if track in self._replaced or (track in ends and track not in odd):
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
        ends = target_truncation.ends(self._target, known)
        behind = [track for track in known if ends.get(track, -1) < track.there]
        return not behind and not self._hanging.unended(self._ledgers)

    def _states(self, tracks: Iterable[Track]) -> dict[Track, Open | None]:
        """What is open under our producer, of those that can be looked at now."""
        found = self._hanging.states(_places(tracks))
        return {self._known[place]: row for place, row in found.items()}

    def _leaders(self, places: Iterable[Place], deadline: float) -> dict[Place, int]:
        wanted = {place: self._known[place] for place in places}
        led = target_truncation.by_leader(self._target, wanted, deadline)
        nodes = {row[:2]: node for node, rows in led.items() for row in rows}
        self._replaced |= {track for place, track in wanted.items() if place not in nodes}
        return {place: node for place, node in nodes.items() if node != target_truncation.NOBODY}


def _places(tracks: Iterable[Track]) -> dict[Place, Track]:
    return {(track.remote_topic, track.partition): track for track in tracks}
