"""The copying loop of one slice: sockets in, sockets out, a commit now and then.

One thread. While the target works on what was sent, the source's next reply is on its way. What
ends a run: an order, the deadline, a fence, a cluster that stays away. What restarts it in place:
a producer that is lost (`ProducerLost`): init again, read the positions again, go on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.producer_id import Identity, ProducerLost
from spark_runner.engine.commit_records import Book
from spark_runner.engine.commit_timing import Pace
from spark_runner.engine.flush import Drain
from spark_runner.engine.identity_checks import changed_topics
from spark_runner.engine.model.lane_counters import Tally
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.receive_buffers import Arenas
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.model.target_settings import Tuning
from spark_runner.engine.partition_stop import Stops
from spark_runner.engine.poller import Ears
from spark_runner.engine.recovery.duplicates import RepeatsSeen
from spark_runner.engine.recovery.foreign_records import Strangers
from spark_runner.engine.recovery.hanging_transactions import Endings
from spark_runner.engine.source.fetch_connection import FetchLimits
from spark_runner.engine.source.reader import Intake
from spark_runner.engine.source.replicated_filter import Replicated
from spark_runner.engine.source.throttle import Throttle
from spark_runner.engine.target.batch_preparation import Preparer
from spark_runner.engine.target.leaders import Homes
from spark_runner.engine.target.retries import Returns
from spark_runner.engine.target.transaction import Members
from spark_runner.engine.target.writer import Outlet
from spark_runner.kafka_protocol.batch_header import BatchStamper
from spark_runner.kafka_protocol.cluster import ClusterClient

_DRAIN_S = 20.0
_HURRIED_S = 3.0


class Engine:
    """Everything of one slice but the contract with the driver.

    Tracks that cannot go on stop alone. What ends or restarts the slice is raised, by `begin`,
    `turn` and `commit` alike: Fenced, ProducerLost, KafkaUnavailable, and KafkaRefused for what
    only a person can mend.
    """

    def __init__(
        self,
        source: ClusterClient,
        target: ClusterClient,
        tracks: list[Track],
        book: Book,
        identity: Identity,
        endings: Endings,
        *,
        limits: FetchLimits,
        arenas: Arenas,
        pace: Pace,
        tally: Tally,
        throttle: Throttle,
        repeats: RepeatsSeen,
        replicated: Replicated | None = None,
        transactional: bool,
        tuning: Tuning,
        newest_produce: int = 13,
    ) -> None:
        self.tracks = tracks
        self._source, self._target = source, target
        self._book = book
        self._repeats = repeats
        self._identity, self._endings = identity, endings
        self._transactional = transactional
        self._pace = pace
        self._arenas = arenas
        self._pen = BatchStamper(transactional=transactional)
        book.markers = int(transactional)
        # Where nothing binds them together, no position before its runs: nobody would add those.
        runs, positions = book.runs, book.positions
        self._ledgers: tuple[tuple[Track, ...], ...] = (
            ((runs, positions),) if transactional else ((runs,), (positions,))
        )
        self._strangers = Strangers(target, identity, watches=replicated is None)
        homes = Homes(
            target,
            [*tracks, positions, runs],
            transactional_id=identity.transactional_id if transactional else None,
            tuning=tuning,
            newest=newest_produce,
        )
        self._homes = homes
        self._stops = stops = Stops(homes, book)
        stops.preparer = preparer = Preparer(
            self._pen, arenas, target.alias, merged_bytes=tuning.merged_bytes, leave=stops.leave
        )
        self._members = Members(identity, request_s=target.request_s)
        returns = Returns(homes, preparer, self._members, stop=stops.now, stall=stops.stall)
        self._outlet = Outlet(
            homes, returns, preparer, arenas, tally, self._members, check=endings.check
        )
        self._intake = stops.intake = Intake(
            source,
            (),
            arenas,
            limits,
            offer=self._outlet.offer,
            stop=stops.behind,
            throttle=throttle,
            replicated=replicated,
        )
        self._ears = Ears(homes, self._intake, self._outlet, pace)
        self._drain = Drain(homes, returns, self._outlet)
        self.commits = 0

    @property
    def events(self) -> int:
        """Grows with everything that the driver should hear of soon."""
        return self.commits + self._stops.count

    def begin(self) -> None:
        """The producer is initialised and the tracks stand at their committed positions.

        Asked again after each ProducerLost: what is not committed is forgotten.
        """
        for track, verdict in self._endings.begin().items():
            self._stops.now(track, verdict)
        going = [track for track in self.tracks if track.error is None]
        self._pen.take(self._identity.producer_id, self._identity.epoch)
        for track in (self._book.positions, self._book.runs):
            track.rewind(0)
        self._book.begin()
        self._outlet.restart()
        self._intake.restart(track for track in going if not track.is_read)
        # Last: nobody has a buffer any more.
        self._arenas.reset()
        self._pace.begin(time.monotonic())
        if self._book.unsaid:
            self._pace.opened(time.monotonic())

    def turn(self, hurry: Callable[[], bool]) -> None:
        """Once round: send what can be sent, wait half a second at most, take what has come.

        A commit that is due takes the place of the rest; for `hurry` see there.
        """
        now = time.monotonic()
        self._intake.pump(now)
        self._outlet.pump(now)
        if self._pace.is_due(now, idle=not self._outlet.is_busy()):
            self.commit(hurry=hurry)
            return
        for end in self._ears.wait(now):
            self._ears.hear(end, time.monotonic())
        self._intake.give_up_overdue(now)
        self._outlet.give_up_overdue(now)

    def commit(self, *, hurry: Callable[[], bool]) -> bool:
        """Everything that has landed becomes visible, with its positions and runs; or nothing.

        `hurry` says that somebody waits: then a target that does not answer is not waited for.
        Returns whether there was anything to commit.
        """
        began = time.monotonic()
        self._drain.settle(began + _DRAIN_S, hurry)
        unsaid = self._book.unsaid
        moved = [track for track in self.tracks if track.has_moved or track in unsaid]
        if not moved:
            if self._members.is_left_open(self.tracks, time.monotonic()):
                self._end_transaction(hurry, commit=False)
            self._pace.nothing(began)
            return False
        # At least once what is written counts at once, so before.
        self._check_names()
        self._repeats.look(moved)
        self._book.write(moved, int(time.time() * 1000))
        for ledgers in self._ledgers:
            self._drain.close(ledgers, time.monotonic() + _DRAIN_S, hurry)
        self._end_transaction(hurry)
        self._book.committed()
        self._repeats.committed(moved)
        for track in moved:
            track.commit(self._book.after_commit(track))
        self.commits += 1
        self._pace.committed(began, time.monotonic())
        if not hurry():
            self._homes.spread(time.monotonic())
            self._strangers.look(self.tracks, time.monotonic())
        return True

    def look_last(self) -> None:
        """Behind the last commit: look into holes that were not looked into yet.

        The next epoch knows nothing of them.
        """
        self._strangers.look(self.tracks, time.monotonic(), last=True)

    def abort(self, within: float) -> None:
        """Give the open transaction up within so many seconds, as well as it goes.

        Left open it would hold up the target's readers. When none is begun nothing is said: an
        abort of nothing would be all that the coordinator remembers, and no longer how the last one
        ended. Version 1 keeps its epoch, and what came in behind the abort would count with the
        next transaction: without replies it stays open, for who takes over to end it under another
        epoch. One that has taken in what hangs, which was committed before, is never aborted.

        Raises as `commit` does; the transaction may be open still then.
        """
        until = time.monotonic() + within
        is_begun = self._transactional and self._members.is_begun
        if is_begun and self._identity.version == 1:
            self._drain.settle(until, lambda: False)
        if is_begun and not self._endings.is_mending:
            self._identity.end(commit=False, deadline=until)

    def _end_transaction(self, hurry: Callable[[], bool], *, commit: bool = True) -> None:
        """At least once there is none. The outlet learns which epoch holds from now on."""
        if not self._transactional:
            return
        deadline = time.monotonic() + (_HURRIED_S if hurry() else _DRAIN_S)
        self._endings.ending()
        is_another = self._identity.end(commit=commit, deadline=deadline)
        now = time.monotonic()
        if is_another:
            self._pen.take(self._identity.producer_id, self._identity.epoch)
            self._outlet.new_epoch((track for track in self.tracks if track.held_since), now)
        else:
            self._outlet.same_epoch(now)

    def _check_names(self) -> None:
        """Old brokers know topics by name only: is each still the one that was planned?

        If not, what was read or written may be the wrong topic's, and must not be committed.
        """
        verdicts: dict[Track, Verdict] = {}
        if self._intake.reads_by_name:
            verdicts |= changed_topics(self._source, self.tracks, remote=False)
        if self._homes.writes_by_name:
            verdicts |= changed_topics(self._target, self.tracks, remote=True)
        for track, verdict in verdicts.items():
            self._stops.now(track, verdict)
        if verdicts:
            raise ProducerLost(Code.UNKNOWN_TOPIC_ID, "prove that the topics are still the same")
