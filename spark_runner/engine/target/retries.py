"""What happens to a batch that the target did not acknowledge: again, by the other lane, or stop.

A track that has something in `returned` sends nothing new. Once nothing of it flies any more, what
came back goes to the front of its queue (`turn_back`), in the order it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mirrors.domain.errors import Fenced, KafkaUnavailable
from mirrors.kafka.error_codes import (
    BATCH_REFUSED,
    FENCING,
    LEADER_MOVED,
    PRODUCER_LOST,
    RETRY,
    Code,
)
from mirrors.kafka.producers.producer_id import ProducerLost
from spark_runner.engine.batches.header_scan import REFUSED
from spark_runner.engine.identity_checks import changed_topics
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.pending_batch import Parcel
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.recovery import target_truncation
from spark_runner.engine.target import errors
from spark_runner.engine.target.batch_preparation import Preparer
from spark_runner.engine.target.leaders import Homes
from spark_runner.engine.target.produce_connection import Pipe
from spark_runner.engine.target.transaction import Members
from spark_runner.kafka_protocol.batch_header import sequence_of
from spark_runner.kafka_protocol.produce import Answer

RETRY_S = 0.1
# The markers of the last transaction are written within milliseconds.
RETRY_BUSY_S = 0.003
_STALLED_AFTER_S = 1.0
# Said before anything is written. Any other answer may come of a batch that is in the log: while
# it waits for its replicas there, time may run out (7, 20), or the broker may lose the lead (3, 6,
# 56), and the next leader has it.
_SURELY_NOT = frozenset(
    {
        Code.NOT_ENOUGH_REPLICAS,
        Code.CONCURRENT_TRANSACTIONS,
        Code.COORDINATOR_LOAD_IN_PROGRESS,
        Code.COORDINATOR_NOT_AVAILABLE,
        Code.NOT_COORDINATOR,
        Code.UNKNOWN_TOPIC_ID,
        Code.INCONSISTENT_TOPIC_ID,
    }
)


class Returns:
    """`stop` is told of tracks that cannot go on, `stall` of stuck ones (True) and of their end."""

    def __init__(
        self,
        homes: Homes,
        preparer: Preparer,
        members: Members,
        *,
        stop: Callable[[Track, Verdict], None],
        stall: Callable[[Track, bool], None],
    ) -> None:
        self._homes = homes
        self._preparer = preparer
        self._members = members
        self.stop = stop
        self._stall = stall
        # Nobody knows whether a batch was written that came back. No commit before that.
        self.unsure: set[Track] = set()
        self._stalled: set[Track] = set()

    def refused(self, track: Track, parcel: Parcel, answer: Answer, now: float) -> None:
        number = answer.error
        if number in FENCING:
            raise Fenced(
                f"Cluster {self._homes.alias}: another owner of the transactional id took over "
                "while records were written."
            )
        self._members.refused(number, now)
        behind = bool(track.returned) and (
            number == Code.OUT_OF_ORDER_SEQUENCE_NUMBER or number in BATCH_REFUSED
        )
        track.returned.append(parcel)
        if behind:
            # It goes out again as it is; what is wrong with it shows when it comes first.
            return
        if number in RETRY:
            if number not in _SURELY_NOT:
                self.unsure.add(track)
            self.hold(track, number, now)
        elif number in PRODUCER_LOST:
            if number == Code.UNKNOWN:
                self._suspect(track, parcel, answer)
            raise ProducerLost(number, f"write {track.remote_topic}-{track.partition}")
        elif number not in BATCH_REFUSED or not _goes_again(parcel, answer):
            track.doomed = self._verdict(track, parcel, answer)

    def fell_short(self, track: Track, base: int) -> None:
        """A batch got an offset that was taken already: the remote partition was cut below it.

        It must not count, so the transaction is given up. Of what was committed before, a person
        decides; what was not is copied again.
        """
        if track.ledger or base < 0:
            return
        if base < track.there:
            track.rewind(track.position)
            # By name, a topic made anew begins below as well.
            changed = changed_topics(self._homes.cluster, [track], remote=True)
            cut = target_truncation.verdict(track, base, self._homes.alias)
            self.stop(track, changed.get(track, cut))
        raise ProducerLost(Code.OFFSET_OUT_OF_RANGE, "find what was written before")

    def not_sent(self, track: Track, parcel: Parcel, number: int, now: float) -> None:
        """It never left: the transaction's coordinator would not have its partition (yet)."""
        track.flying.pop()
        track.returned.append(parcel)
        if number in RETRY:
            self.hold(track, number, now)
        else:
            alias = self._homes.alias
            track.doomed = errors.refused(track, parcel.first, number, "", alias)
        if not track.flying:
            self.turn_back(track)

    def _suspect(self, track: Track, parcel: Parcel, answer: Answer) -> None:
        """-1 is no clear no: give the producer up, and send that batch by the other lane."""
        if track.suspect == parcel.first:
            self.stop(track, self._verdict(track, parcel, answer))
        track.suspect = parcel.first

    def _verdict(self, track: Track, parcel: Parcel, answer: Answer) -> Verdict:
        offset, said = parcel.first, answer.message
        if answer.record_errors:
            position, text = answer.record_errors[0]
            offset, said = parcel.offset_at(position), text or said
        return errors.refused(track, offset, answer.error, said, self._homes.alias)

    def turn_back(self, track: Track) -> None:
        """Nothing of the track flies any more."""
        queue, returned = track.queue, track.returned
        queue.extendleft(reversed(returned))
        track.queued_bytes += sum(parcel.size for parcel in returned)
        returned.clear()
        if track.doomed is not None or (queue and queue[0].why == REFUSED):
            self._unstamp(track)
        if track.doomed is not None:
            self._preparer.discard(track)
            self.stop(track, track.doomed)
            return
        if track in self._stalled:
            self._preparer.evict(track)
        self._homes.ready(track)

    def _unstamp(self, track: Track) -> None:
        """What came back is surely not at the broker: its sequences are free again."""
        if track in self.unsure:
            raise ProducerLost(Code.INVALID_RECORD, "tell what has been written")
        stamped = [parcel for parcel in track.queue if parcel.stamped]
        for parcel in stamped:
            parcel.stamped = False
        if stamped and (first := stamped[0].view) is not None:
            track.sequences.take_back(sequence_of(first))

    def looked(self, track: Track, number: int, now: float) -> None:
        """Its leader was looked for: there is one (0), or the number says why not."""
        if number:
            self.hold(track, number, now)
        elif track.held_since and not _is_awaited(track):
            self.recovered(track)

    def hold(self, track: Track, number: int, now: float) -> None:
        """Try this track again a little later; stop it when that has gone on for too long."""
        # Asked by two connections at once to add partitions to a transaction, a broker may answer
        # the first of them so.
        busy = number == Code.CONCURRENT_TRANSACTIONS or (
            number == Code.NOT_ENOUGH_REPLICAS and not track.held_since
        )
        track.held_since = track.held_since or now
        track.held_until = now + (RETRY_BUSY_S if busy else RETRY_S)
        if number in LEADER_MOVED:
            self._homes.leave(track, track.held_until)
        seconds = now - track.held_since
        verdict = errors.overdue(
            track, number, seconds, self._homes.alias, give_up_s=self._homes.tuning.give_up_s
        )
        if verdict is not None:
            if track.ledger:
                raise KafkaUnavailable(verdict.reason, code=verdict.code)
            if track in self.unsure:
                raise ProducerLost(number, f"learn what {track.remote_topic} has taken")
            track.doomed = verdict
            if not track.flying and not track.returned:
                self.turn_back(track)
        elif seconds > _STALLED_AFTER_S and track not in self._stalled and not track.ledger:
            self._stalled.add(track)
            self._stall(track, True)
            if not track.flying and not track.returned:
                self._preparer.evict(track)

    def recovered(self, track: Track) -> None:
        """Of a held track a batch has landed; it is well again when all that came back has.

        With a backlog that may be long after, so its time counts from the last one that landed.
        """
        if _is_awaited(track):
            track.held_since = time.monotonic()
            return
        track.held_since = 0.0
        self.unsure.discard(track)
        if track in self._stalled:
            self._stalled.discard(track)
            self._stall(track, False)

    def lost(self, pipe: Pipe, now: float, error: KafkaUnavailable) -> None:
        """The connection broke: what was in flight may have been written, or not."""
        if self._homes.pipes.get(pipe.home) is not pipe:
            return
        touched: dict[Track, None] = {}
        for flight in pipe.flights:
            for track, parcel in flight.items():
                track.flying.popleft()
                track.returned.append(parcel)
                touched[track] = None
        self.unsure.update(touched)
        self._homes.lost(pipe, now)
        self._homes.outage.note(now, error)
        for track in touched:
            track.held_since = track.held_since or now
            self.turn_back(track)

    def forget(self) -> None:
        """The producer is another one: what was in doubt was aborted."""
        self.unsure.clear()
        self._stalled.clear()


def _is_awaited(track: Track) -> bool:
    """Whether something of it flies, or came back and has to go out again as it was."""
    return bool(track.flying or (track.queue and track.queue[0].stamped))


def _goes_again(parcel: Parcel, answer: Answer) -> bool:
    """Whether the refused batch may go by the other lane, in parts down to the one bad record."""
    suspect = answer.record_errors[0][0] if answer.record_errors else -1
    if parcel.records > 1:
        known = 0 <= suspect < parcel.records
        parcel.cuts = (suspect, suspect + 1) if known else (parcel.records // 2,)
    elif parcel.arena is None or parcel.why:
        return False
    parcel.why = REFUSED
    return True
