"""The process that outlives a killed demo for a moment, to end everything the demo had started.

Run as `python -m controlplane.demo.processes.reaper MARK BOOK LITTER...` with a pipe from its
owner as
standard input: when the pipe closes, whatever closed it, every process of that brand ends, and the
files that would tell of a demo that is no more go away.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from controlplane.demo.processes.ownership import Brand


def main(mark: str, book: str, *litter: str) -> None:
    # Ctrl-C in the owner's terminal is the owner's to act on; we end when it is gone.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(4096):
        pass
    Brand(mark, Path(book) if book else None).end()
    for name in litter:
        Path(name).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
