"""What the demo says while it starts: each step with its time, on a terminal and without one."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

WIDTH = 58
_REFRESH = 0.2
_REMIND = 15.0
_CLEAR = "\r\x1b[2K"


class Step:
    """One thing that takes time; `note` is what is said of it when it is done."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.note = ""
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began


class Console:
    """Lines for what is done; on a terminal also one line, redrawn, for what is under way."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        encoding = (self._stream.encoding or "ascii").lower().replace("-", "")
        self._done, self._failed = ("✔", "✘") if encoding == "utf8" else ("ok", "no")
        self._lock = threading.RLock()
        self._running: list[Step] = []
        self._spoke = time.monotonic()
        self._ended = threading.Event()
        self._drawer = threading.Thread(target=self._draw, name="console", daemon=True)
        self._drawer.start()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[Step]:
        """Shows that `name` is under way, and at the end how long it took or that it failed."""
        step = Step(name)
        with self._lock:
            self._running.append(step)
            if not self._live:
                self.say(f"   {name} ...")
        sign = self._failed
        try:
            yield step
            sign = self._done
        finally:
            with self._lock:
                self._running.remove(step)
                text = f"{name}: {step.note}" if step.note else name
                self.say(f" {sign} {text:<{WIDTH}} {step.seconds:6.1f} s")

    def say(self, text: str = "") -> None:
        # A terminal that went away is no reason to fail: somebody may still use the demo.
        with self._lock, contextlib.suppress(OSError, ValueError):
            self._spoke = time.monotonic()
            self._stream.write((_CLEAR if self._live else "") + text + "\n")
            self._stream.flush()

    def close(self) -> None:
        self._ended.set()
        self._drawer.join(2)

    def _draw(self) -> None:
        while not self._ended.wait(_REFRESH):
            with self._lock, contextlib.suppress(OSError, ValueError):
                if self._live:
                    self._stream.write(_CLEAR + self._under_way()[:100])
                    self._stream.flush()
                elif self._running and time.monotonic() - self._spoke > _REMIND:
                    self.say(f"   still at it:{self._under_way()}")
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(_CLEAR if self._live else "")
            self._stream.flush()

    def _under_way(self) -> str:
        return ",".join(f" {step.name} ({step.seconds:.0f} s)" for step in self._running)
