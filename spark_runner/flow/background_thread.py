"""A thread that runs one call at a time, so that the flow's thread never waits for Kafka."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from mirrors.domain.errors import UnderstudyError

log = logging.getLogger("spark_runner.flow")


@dataclasses.dataclass(frozen=True)
class CallResult:
    """The result of a call: a value, or the error."""

    operation: str
    value: Any = None
    error: UnderstudyError | None = None


class BackgroundThread:
    """`submit` a call, `poll` its result later. `wake` is called when a result is there."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._calls: queue.SimpleQueue[tuple[str, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[CallResult] = queue.SimpleQueue()
        self._pending = 0
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_busy(self) -> bool:
        return self._pending > 0

    def submit(self, operation: str, function: Callable[[], Any]) -> None:
        self._pending += 1
        self._calls.put((operation, function))

    def poll(self) -> CallResult | None:
        try:
            result = self._results.get_nowait()
        except queue.Empty:
            return None
        self._pending -= 1
        return result

    def stop(self) -> None:
        """End the thread after the present call."""
        self._calls.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            operation, function = call
            try:
                result = CallResult(operation, function())
            except UnderstudyError as error:
                result = CallResult(operation, error=error)
            except Exception as error:
                log.exception("Operation %s", operation)
                words = f"Internal error in {operation}: {type(error).__name__}: {error}."
                result = CallResult(operation, error=UnderstudyError(words, code="defect"))
            self._results.put(result)
            self._wake()
