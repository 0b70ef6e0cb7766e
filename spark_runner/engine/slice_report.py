"""What a slice tells its driver: figures each second of what moved, and the result at the end."""

from __future__ import annotations

import os
import time
from typing import Literal

from spark_runner.engine.model.lane_counters import Tally
from spark_runner.engine.model.partition import Track
from spark_runner.engine.recovery.duplicates import RepeatsSeen
from spark_runner.engine.source.throttle import Throttle
from spark_runner.ipc.messages import EndedBecause, Figures, PartitionFigure, SliceResult
from spark_runner.ipc.task_channel import Channel

_REASONS: dict[str, str] = {
    "deadline": "The epoch's time is over.",
    "stop": "The flow was told to stop.",
    "replan": "The flow is planned anew.",
    "handover": "The next epoch takes over.",
    "lost_control": "The connection to the driver was lost.",
}


class Account:
    """Reads the tracks; only what is committed counts."""

    def __init__(
        self,
        tracks: list[Track],
        channel: Channel,
        tally: Tally,
        throttle: Throttle,
        repeats: RepeatsSeen,
    ) -> None:
        self._throttle = throttle
        self._repeats = repeats
        self._tracks = tracks
        self._tally = tally
        self._channel = channel
        self._told: dict[Track, int] = {}
        self._told_left_out: dict[Track, int] = {}
        self._told_copied: dict[Track, int] = {}
        self._told_errors: set[Track] = set()
        # Before the committed positions are read, the tracks stand where the plan saw them.
        self.knows_positions = False

    def report(self, state: Literal["connecting", "ready", "copying", "stopping"]) -> None:
        moved = [
            track
            for track in self._known()
            if self._told.get(track) != track.position or track.strangers
        ]
        self._told.update({track: track.position for track in moved})
        stopped = [track for track in self._stopped() if track not in self._told_errors]
        self._told_errors.update(stopped)
        self._channel.report(
            Figures(
                as_of=int(time.time() * 1000),
                pid=os.getpid(),
                state=state,
                records=self._records(),
                bytes=self._bytes(),
                partitions=tuple(map(self._figure, moved)),
                errors=tuple(track.error for track in stopped if track.error is not None),
                lanes=self._tally.lanes(self._tracks),
                limited=self._throttle.is_limited,
                quota=self._throttle.quota,
                weight=self._throttle.weight,
            )
        )

    def result(self, ended: EndedBecause, reason: str = "", code: str = "") -> SliceResult:
        return SliceResult(
            ended_because=ended,
            reason=reason or _REASONS.get(ended, ""),
            code=code,
            records=self._records(),
            bytes=self._bytes(),
            partitions=tuple(map(self._figure, self._known())),
            errors=tuple(track.error for track in self._stopped() if track.error is not None),
            lanes=self._tally.lanes(self._tracks),
        )

    def _stopped(self) -> list[Track]:
        """Those whose last records are committed: till then a gap has a number too high."""
        return [track for track in self._tracks if track.error is not None and not track.has_moved]

    def _known(self) -> list[Track]:
        return self._tracks if self.knows_positions else []

    def _records(self) -> int:
        return sum(track.counts.committed_records for track in self._tracks)

    def _bytes(self) -> int:
        return sum(track.counts.committed_bytes for track in self._tracks)

    def _figure(self, track: Track) -> PartitionFigure:
        told = self._told_left_out.get(track, 0)
        self._told_left_out[track] = track.left_out.records
        copied_before = self._told_copied.get(track, 0)
        self._told_copied[track] = track.counts.committed_records
        found, track.strangers = tuple(track.strangers), []
        return PartitionFigure(
            topic=track.topic,
            partition=track.partition,
            position=track.position,
            timestamp=track.counts.committed_timestamp,
            end=track.end,
            stable_end=track.stable_end,
            lane="repack" if track.why else "raw",
            why=track.why,
            left_out=track.left_out.records - told,
            copied=track.counts.committed_records - copied_before,
            strangers=found,
            repeats=self._repeats.count(track),
            there=track.there if track.there >= 0 else None,
        )
