"""The target side of a slice: batches out in order, replies in.

Order within a partition is kept by three rules. A first batch flies alone until it has landed
(a first sequence must be 0, and 51 may send it back); few fly; what comes back goes out
again before anything newer, with the same bytes and the same sequence, once nothing else of that
partition is on its way. So a reply that was lost does no harm: the broker knows the batch and
answers with its first offset.

`drain.py` is the waiting for all of it before a commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.producer_id import ProducerLost
from mirrors.kafka.protocol.checked_connection import too_late
from spark_runner.engine.model.lane_counters import Tally
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.pending_batch import Parcel
from spark_runner.engine.model.receive_buffers import Arenas
from spark_runner.engine.target.batch_preparation import Preparer
from spark_runner.engine.target.in_flight import Flight
from spark_runner.engine.target.leaders import Homes
from spark_runner.engine.target.produce_connection import Pipe
from spark_runner.engine.target.retries import RETRY_S, Returns
from spark_runner.engine.target.transaction import Lull, Members

Which = Callable[[Track], bool]


class Outlet:
    """All pipes of a slice; `check` is asked who has to wait, before anything is sent.

    `now` is a moment of the monotonic clock, in seconds. What sends or receives may raise Fenced
    (another owner writes under our id), ProducerLost (only another producer can go on in order),
    KafkaUnavailable (nothing of the target has answered for too long) and KafkaRefused (it does not
    take our own records). One connection that breaks raises nothing: what was on it comes back.
    """

    def __init__(
        self,
        homes: Homes,
        returns: Returns,
        preparer: Preparer,
        arenas: Arenas,
        tally: Tally,
        members: Members,
        *,
        check: Callable[[Iterable[Track]], Iterable[Track]],
    ) -> None:
        self._homes = homes
        self._tuning = homes.tuning
        self._returns = returns
        self._preparer = preparer
        self._arenas, self._tally = arenas, tally
        self._check, self._members = check, members
        # Counts the producer epochs: a track has to be confirmed anew under each.
        self._number = 0
        self._lull = Lull()
        # The pipes whose first answer since the last end is still to come.
        self._first: set[tuple[int, int]] = set()

    # -- what the loop asks

    def offer(self, track: Track) -> None:
        """The track has something to send."""
        if track.error is None:
            self._homes.ready(track)

    def awaited(self) -> list[Pipe]:
        """Those whose broker has a request to answer."""
        return [pipe for pipe in self._homes.pipes.values() if pipe.flights]

    def wakes_at(self, now: float) -> float:
        """When there is something to do that no socket tells of."""
        moment = self._homes.wakes_at()
        lull = self._lull.until
        for pipe in self._homes.pipes.values():
            if pipe.ready and now < lull < moment:
                moment = lull
            if pipe.ready and now < pipe.link.quiet_until < moment:
                moment = pipe.link.quiet_until
            for track in pipe.ready:
                if now < track.held_until < moment:
                    moment = track.held_until
        return moment

    def pump(self, now: float, which: Which = lambda _: True) -> None:
        """Look for missing leaders, then send what can be sent, of the tracks asked for."""
        for track, number in self._homes.look(now):
            self._returns.looked(track, number, now)
        for pipe in list(self._homes.pipes.values()):
            if pipe.ready:
                for track in self._check(pipe.ready):
                    track.held_until = now + RETRY_S
            if now < self._lull.until:
                continue
            while pipe.may_send(now) and self._launch(pipe, now, which):
                pass
            pipe.was_full |= bool(pipe.ready) and len(pipe.flights) >= self._tuning.in_flight

    def receive(self, pipe: Pipe, now: float) -> None:
        """Take the oldest reply of a pipe, and all that have come along with it."""
        self._receive(pipe, now)
        while pipe.flights and pipe.link.pending():
            self._receive(pipe, now)

    def _receive(self, pipe: Pipe, now: float) -> None:
        try:
            flight, answers = pipe.read(now)
        except KafkaUnavailable as error:
            self._returns.lost(pipe, now, error)
            return
        if pipe.home in self._first:
            self._first.discard(pipe.home)
            # Our own records end a transaction; they do not begin one.
            if not any(track.ledger for track in flight):
                self._lull.answered(pipe.took_s)
        by_key = self._homes.by_key
        for answer in answers:
            track = by_key[answer.key, answer.partition]
            parcel = flight.pop(track)
            track.flying.popleft()
            if answer.error:
                self._returns.refused(track, parcel, answer, now)
            elif track.returned:
                # An earlier batch of it came back, so this one must not have been taken.
                raise ProducerLost(Code.OUT_OF_ORDER_SEQUENCE_NUMBER, "keep the order")
            else:
                self._landed(track, parcel, answer.base_offset)
            if not track.flying:
                if track.returned or track.doomed:
                    self._returns.turn_back(track)
                else:
                    self._end(track)
        self._homes.outage.over()

    def is_busy(self) -> bool:
        """Whether something is in flight or could be."""
        return any(pipe.flights or pipe.ready for pipe in self._homes.pipes.values())

    def give_up_overdue(self, now: float) -> None:
        """No reply for long: the connection is of no use any more."""
        for pipe in self.awaited():
            if pipe.is_overdue(now):
                self._returns.lost(pipe, now, too_late(pipe.link.where))

    def new_epoch(self, tracks: Iterable[Track], now: float) -> None:
        """A transaction has ended and the producer's epoch moved on.

        What was surely refused under the old epoch, of these tracks, is written again under the new
        one.
        """
        self._number += 1
        self._ended(now)
        for track in tracks:
            for parcel in track.queue:
                parcel.stamped = False

    def same_epoch(self, now: float) -> None:
        """A transaction of version 1 has ended: the sequences go on."""
        self._ended(now)

    def restart(self) -> None:
        """The producer is another one: nothing that was on its way counts."""
        self._number += 1
        self._members.clear()
        self._returns.forget()
        self._homes.restart()

    def _ended(self, now: float) -> None:
        self._lull.begin(now)
        self._first = set(self._homes.pipes)
        self._members.clear()

    # -- out

    def _launch(self, pipe: Pipe, now: float, which: Which) -> bool:
        """One request with a batch of each track that may send one."""
        flight: Flight = {}
        size, most = 0, pipe.room
        for track in list(pipe.ready):
            if not self._may_send(track, now) or not which(track):
                continue
            del pipe.ready[track]
            parcel = self._preparer.next(track)
            if parcel is None:
                self._end(track)
                continue
            flight[track] = parcel
            track.flying.append(parcel)
            if track.queue:
                pipe.ready[track] = None
            size += parcel.size
            if size >= most:
                break
        self._members.is_begun |= bool(flight)
        if not pipe.adds_by_itself:
            for track, number in self._members.add(flight).items():
                self._returns.not_sent(track, flight.pop(track), number, now)
        if not flight:
            return False
        try:
            pipe.send(flight, now)
        except KafkaUnavailable as error:
            self._returns.lost(pipe, now, error)
            return False
        return True

    def _end(self, track: Track) -> None:
        """Stop a track that was to go no further than this."""
        if track.ending is not None and not (track.flying or track.queue or track.returned):
            self._returns.stop(track, track.ending)

    def _may_send(self, track: Track, now: float) -> bool:
        if track.held_until > now or track.returned:
            return False
        return not track.flying or track.confirmed == self._number

    # -- in

    def _landed(self, track: Track, parcel: Parcel, base: int) -> None:
        if base < track.next_there or base < track.there:
            self._returns.fell_short(track, base)
        track.landed(parcel, base)
        track.confirmed = self._number
        if parcel.arena is not None:
            self._arenas.release(parcel.arena)
        if parcel.why:
            self._tally.count(parcel)
        if track.held_since:
            self._returns.recovered(track)
