"""One errand at a time on a thread of its own: whatever waits for Kafka, the flow does not."""

from __future__ import annotations

import dataclasses
import logging
import queue
import threading
from collections.abc import Callable
from typing import Any

from mirrors.domain.errors import UnderstudyError

log = logging.getLogger("spark_runner.clerk")


@dataclasses.dataclass(frozen=True)
class Answer:
    """What became of an errand: a value, or the error in words."""

    errand: str
    value: Any = None
    error: UnderstudyError | None = None


class Clerk:
    """`ask`, and `take` the answer later: `wake` says when. Errands wait for each other."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._errands: queue.SimpleQueue[tuple[str, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self._unanswered = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        return self._unanswered > 0

    def ask(self, errand: str, act: Callable[[], Any]) -> None:
        self._unanswered += 1
        self._errands.put((errand, act))

    def take(self) -> Answer | None:
        try:
            answer = self._answers.get_nowait()
        except queue.Empty:
            return None
        self._unanswered -= 1
        return answer

    def dismiss(self) -> None:
        """The thread ends after its present errand."""
        self._errands.put(None)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _work(self) -> None:
        while (order := self._errands.get()) is not None:
            errand, act = order
            try:
                answer = Answer(errand, act())
            except UnderstudyError as error:
                answer = Answer(errand, error=error)
            except Exception as error:
                log.exception("Errand %s", errand)
                words = f"A defect of ours in {errand}: {type(error).__name__}: {error}."
                answer = Answer(errand, error=UnderstudyError(words, code="defect"))
            self._answers.put(answer)
            self._wake()
