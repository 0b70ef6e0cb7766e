"""Status files: when they are written, and which changes are logged."""

from __future__ import annotations

import logging
from pathlib import Path

from mirrors.domain.runners.job_files import JobSpec, JobState, JobStatus
from mirrors.launcher import status_path, write_whole
from spark_runner.status.flow import FlowProgress

_disk_log = logging.getLogger("spark_runner")

LOG_AGAIN_S = 60.0


class StatusFile:
    """Writes a file atomically. Used by one thread. Times are monotonic seconds, passed in."""

    def __init__(self) -> None:
        # Whether the last text could not be written, and when that was last logged.
        self.has_unwritten = False
        self._logged_at: float | None = None

    def write(self, path: Path, text: str, now: float) -> None:
        """Write the whole text or nothing. A failed write is retried with the next text."""
        try:
            write_whole(path, text)
        except OSError as error:
            self.has_unwritten = True
            if self._logged_at is None or now - self._logged_at >= LOG_AGAIN_S:
                self._logged_at = now
                words = error.strerror or error
                _disk_log.error(
                    "%s cannot be written: %s. Copying continues, but nobody sees it.", path, words
                )
        else:
            self.has_unwritten, self._logged_at = False, None


log = logging.getLogger("spark_runner.flow")

# A little less than the flow's tick, so that every tick writes a file.
MOVING_S = 0.9
# New positions do not wait for a whole tick.
CHANGES_S = 0.3
# Interval while only the time changes: a file has one row per partition. The source offsets are
# sampled as seldom.
QUIET_S = 5.0


class FlowStatusWriter:
    """Writes a flow's status. Used by the flow's thread. Times are monotonic seconds, passed in."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = StatusFile()
        self._written: tuple[JobState, str] | None = None
        self._at = 0.0

    @property
    def has_unwritten(self) -> bool:
        """Whether the last status could not be written and has to be written again."""
        return self._file.has_unwritten

    def wait_s(self, now: float) -> float:
        """Seconds until changes may be written."""
        return max(0.0, self._at + CHANGES_S - now)

    def is_due(
        self, state: tuple[JobState, str], progress: FlowProgress, now: float, *, has_changes: bool
    ) -> bool:
        """Write at once when the state or the reason changes, figures at intervals."""
        every_s = CHANGES_S if has_changes else MOVING_S if progress.has_backlog() else QUIET_S
        return now - self._at >= every_s or state != self._written

    def write(self, job: JobSpec, status: JobStatus, now: float) -> None:
        before, self._written, self._at = self._written, (status.state, status.reason), now
        if before is None or before[0] != status.state:
            level = logging.WARNING if status.state in ("degraded", "failed") else logging.INFO
            log.log(level, "Flow %s (%s): %s. %s", job.flow, job.name, status.state, status.reason)
        self._file.write(status_path(self._directory, status.flow), status.to_json(), now)
