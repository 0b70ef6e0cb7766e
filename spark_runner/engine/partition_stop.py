"""Tracks of a slice that stop, for good or for a while: read no more, written no more, told of.

Whoever finds that one cannot go on brings the verdict; here is what follows from it. The other
tracks of the slice go on.
"""

from __future__ import annotations

from mirrors.domain.errors import KafkaRefused
from spark_runner.engine.commit_records import Book
from spark_runner.engine.model.partition import Track
from spark_runner.engine.model.stop_reason import Verdict
from spark_runner.engine.source.reader import Intake
from spark_runner.engine.target.batch_preparation import Preparer
from spark_runner.engine.target.leaders import Homes


class Stops:
    """One for an epoch. `intake` and `preparer` tell it of tracks too, so they are set after it."""

    intake: Intake
    preparer: Preparer

    def __init__(self, homes: Homes, book: Book) -> None:
        self._homes = homes
        self._book = book
        # How many tracks have stopped for good in this epoch.
        self.count = 0

    def leave(self, track: Track) -> None:
        """Read no more of it; what was read still crosses."""
        self.intake.leave(track)

    def behind(self, track: Track, verdict: Verdict) -> None:
        """The source cannot be read on: the track stops when what was read has crossed."""
        self.intake.leave(track)
        if track.queue or track.flying or track.returned:
            track.ending = verdict
        else:
            self.now(track, verdict)

    def now(self, track: Track, verdict: Verdict) -> None:
        """Nothing more of it crosses. A remote partition that was cut is marked in the next commit.

        Raises KafkaRefused for one of our own topics: without those nothing can be committed.
        """
        if track.ledger:
            raise KafkaRefused(
                f"Cluster {self._homes.alias}: {track.topic} does not take what the flow has to "
                f"write there: {verdict.reason}",
                code=verdict.code,
            )
        self.intake.leave(track)
        self._homes.forget(track)
        self.preparer.discard(track)
        if verdict.gap is not None and verdict.gap.remote_end is not None:
            self._book.mark(track, verdict.gap.remote_end)
        track.error = verdict.on(track.place, track.done)
        self.count += 1

    def stall(self, track: Track, stuck: bool) -> None:
        """The target does not take it for a while: it is read again once it is stuck no longer."""
        if stuck:
            self.intake.leave(track)
        elif track.error is None:
            self.intake.join(track)
