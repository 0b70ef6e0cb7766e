"""Ends all processes of a demo whose owner was killed.

Run as `python -m controlplane.demo.processes.reaper MARK PID_FILE LITTER...` with a pipe from its
owner as standard input. When the pipe closes, for whatever reason, all processes with the mark end,
and the files that describe the demo are removed.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from controlplane.demo.processes.ownership import ProcessMark


def main(mark: str, book: str, *litter: str) -> None:
    # Ctrl-C in the owner's terminal is the owner's to act on; we end when it is gone.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    ProcessMark(mark, Path(book) if book else None).end()
    for name in litter:
        Path(name).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
