"""What a flow says of itself: when its status file is written, and what the log tells."""

from __future__ import annotations

import logging
from pathlib import Path

from mirrors.domain.runners.job_files import JobSpec, JobState, JobStatus
from mirrors.launcher import status_path, write_whole
from spark_runner.status.board import Board

_disk_log = logging.getLogger("spark_runner")

SAID_S = 60.0


class StatusFile:
    """Used by one thread. Moments are monotonic seconds, handed in."""

    def __init__(self) -> None:
        # Whether the last text is still to be written, and when that was said in the log.
        self.is_behind = False
        self._said_at: float | None = None

    def write(self, path: Path, text: str, now: float) -> None:
        """Whole, or not at all: then it is for the next text to be written."""
        try:
            write_whole(path, text)
        except OSError as error:
            self.is_behind = True
            if self._said_at is None or now - self._said_at >= SAID_S:
                self._said_at = now
                words = error.strerror or error
                _disk_log.error(
                    "%s cannot be written: %s. Work goes on; nobody sees how.", path, words
                )
        else:
            self.is_behind, self._said_at = False, None


log = logging.getLogger("spark_runner.flow")

# A little less than the flow's tick, so that no tick goes by without a file.
MOVING_S = 0.9
# Positions that moved are not kept back for a whole tick.
NEWS_S = 0.3
# A file with a row for each partition, in which nothing changes but the time: as often as the ends
# are asked for then.
QUIET_S = 5.0


class FlowReport:
    """Used by the flow's thread. Moments are monotonic seconds, handed in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = StatusFile()
        self._said: tuple[JobState, str] | None = None
        self._at = 0.0

    @property
    def is_behind(self) -> bool:
        """The last word could not be written down: it is told again."""
        return self._file.is_behind

    def news_wait_s(self, now: float) -> float:
        """How long news may wait yet."""
        return max(0.0, self._at + NEWS_S - now)

    def is_due(
        self, verdict: tuple[JobState, str], board: Board, now: float, *, has_news: bool
    ) -> bool:
        """Another state or sentence is told at once, figures as often as they change."""
        every_s = NEWS_S if has_news else MOVING_S if board.is_moving() else QUIET_S
        return now - self._at >= every_s or verdict != self._said

    def write(self, job: JobSpec, status: JobStatus, now: float) -> None:
        before, self._said, self._at = self._said, (status.state, status.reason), now
        if before is None or before[0] != status.state:
            level = logging.WARNING if status.state in ("degraded", "failed") else logging.INFO
            log.log(level, "Flow %s (%s): %s. %s", job.flow, job.name, status.state, status.reason)
        self._file.write(status_path(self._directory, status.flow), status.to_json(), now)
