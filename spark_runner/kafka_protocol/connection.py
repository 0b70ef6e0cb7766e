"""The engine's connection to a broker: its streams receive large responses without copying."""

from __future__ import annotations

import socket
from typing import ClassVar

from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security.connection_settings import ConnectionFacts
from spark_runner.kafka_protocol.request_header import CLIENT_ID
from spark_runner.kafka_protocol.tcp_stream import Buffers, PlainStream
from spark_runner.kafka_protocol.tls_stream import TlsStream


class Connection(BrokerConnection):
    """Like its base class. `buffers` are the socket's buffers."""

    longest_frame: ClassVar[int] = 1 << 30
    stream: PlainStream | TlsStream

    def __init__(
        self,
        facts: ConnectionFacts,
        host: str,
        port: int,
        *,
        buffers: Buffers | None = None,
    ) -> None:
        super().__init__(facts, host, port, client_id=CLIENT_ID)
        self._buffers = buffers or Buffers()

    def prepare(self, connecting: socket.socket) -> None:
        self._buffers.apply(connecting)

    def open_stream(self, connected: socket.socket, deadline: float) -> PlainStream | TlsStream:
        plain = PlainStream(connected, self.where, most_together=self._buffers.together)
        if self.facts.tls is None:
            return plain
        self.step = "tls"
        try:
            return TlsStream(plain, self.facts.tls, self.host, deadline)
        except BaseException:
            plain.close()
            raise
