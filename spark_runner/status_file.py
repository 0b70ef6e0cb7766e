"""A file that says how things are; a disk that is full ends nobody's work."""

from __future__ import annotations

import logging
from pathlib import Path

from mirrors.launcher import write_whole

log = logging.getLogger("spark_runner")

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
                log.error("%s cannot be written: %s. Work goes on; nobody sees how.", path, words)
        else:
            self.is_behind, self._said_at = False, None
