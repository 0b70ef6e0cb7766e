"""One blocking connection to one broker, step by step: name, TCP, TLS, versions, login, questions.

Where librdkafka hides the cause of a failure in its log, this names the step and the exact cause.
kafka-python's message classes are the codec; its own client is not used, since it logs what it
sends. Words for the causes are in diagnosis.py.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.protocol.sockets import SocketStream
from mirrors.kafka.security.connection_settings import ConnectionFacts


class Dialogue(BrokerConnection):
    """Ask one broker questions. `deadline` is a moment of time.monotonic() for all of them."""

    def __init__(
        self,
        facts: ConnectionFacts,
        host: str,
        port: int,
        *,
        deadline: float,
        step_s: float = 10.0,
        client_id: str = "understudy-dialogue",
    ) -> None:
        super().__init__(facts, host, port, client_id=client_id, step_s=step_s)
        self.deadline = deadline

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def open(self) -> Self:
        """All steps up to a usable connection; Broken names the one that failed."""
        self.connect(self.deadline)
        return self

    def ask(self, request: Any, *, at_most: int = 99) -> Any:
        """Send and wait for the answer, in the newest version that both sides know."""
        return self.call(request, self.deadline, newest=at_most)

    def knows(self, api_key: int) -> bool:
        return api_key in self.versions

    @property
    def certificate(self) -> dict[str, Any]:
        """What the server showed of itself; empty without TLS."""
        return self.stream.certificate if isinstance(self.stream, SocketStream) else {}
