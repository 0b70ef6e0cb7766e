"""What a flow says of itself: when its status file is written, and what the log tells."""

from __future__ import annotations

import logging
from pathlib import Path

from mirrors.domain.runners.job_files import JobSpec, JobState, JobStatus
from mirrors.launcher import status_path, write_whole
from spark_runner.status.board import FlowProgress

_disk_log = logging.getLogger("spark_runner")

LOG_AGAIN_S = 60.0


class StatusFile:
    """Used by one thread. Moments are monotonic seconds, handed in."""

    def __init__(self) -> None:
        # Whether the last text is still to be written, and when that was said in the log.
        self.has_unwritten = False
        self._logged_at: float | None = None

    def write(self, path: Path, text: str, now: float) -> None:
        """Whole, or not at all: then it is for the next text to be written."""
        try:
            write_whole(path, text)
        except OSError as error:
            self.has_unwritten = True
            if self._logged_at is None or now - self._logged_at >= LOG_AGAIN_S:
                self._logged_at = now
                words = error.strerror or error
                _disk_log.error(
                    "%s cannot be written: %s. Work goes on; nobody sees how.", path, words
                )
        else:
            self.has_unwritten, self._logged_at = False, None


log = logging.getLogger("spark_runner.flow")

# A little less than the flow's tick, so that no tick goes by without a file.
MOVING_S = 0.9
# Positions that moved are not kept back for a whole tick.
CHANGES_S = 0.3
# A file with a row for each partition, in which nothing changes but the time: as often as the ends
# are asked for then.
QUIET_S = 5.0


class FlowStatusWriter:
    """Used by the flow's thread. Moments are monotonic seconds, handed in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = StatusFile()
        self._written: tuple[JobState, str] | None = None
        self._at = 0.0

    @property
    def has_unwritten(self) -> bool:
        """The last word could not be written down: it is told again."""
        return self._file.has_unwritten

    def wait_s(self, now: float) -> float:
        """How long news may wait yet."""
        return max(0.0, self._at + CHANGES_S - now)

    def is_due(
        self, state: tuple[JobState, str], progress: FlowProgress, now: float, *, has_changes: bool
    ) -> bool:
        """Another state or sentence is told at once, figures as often as they change."""
        every_s = CHANGES_S if has_changes else MOVING_S if progress.has_backlog() else QUIET_S
        return now - self._at >= every_s or state != self._written

    def write(self, job: JobSpec, status: JobStatus, now: float) -> None:
        before, self._written, self._at = self._written, (status.state, status.reason), now
        if before is None or before[0] != status.state:
            level = logging.WARNING if status.state in ("degraded", "failed") else logging.INFO
            log.log(level, "Flow %s (%s): %s. %s", job.flow, job.name, status.state, status.reason)
        self._file.write(status_path(self._directory, status.flow), status.to_json(), now)
