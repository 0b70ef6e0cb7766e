"""TLS over a PlainStream with memory buffers: large network reads, few calls into OpenSSL.

An `ssl.SSLSocket` makes two system calls for each record of 16 KB and has no MSG_WAITALL.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.protocol.connection_errors import connection_lost
from spark_runner.kafka_protocol.tcp_stream import Buffer, PlainStream

_STAGE: Final = 1 << 18
# OpenSSL may hold this many bytes of an incomplete record. The rest of it will arrive.
_RECORD: Final = 1 << 15
# The number of bytes that are joined, encrypted and sent together. Each call into OpenSSL ends a
# TLS record, so smaller pieces would make twice as many records. A whole request would need twice
# its memory, and leave the processor's cache before it is sent.
_MAX_WAKEUP_BYTES: Final = 1 << 17


class TlsStream:
    """The methods of PlainStream. The server's certificate is checked against `host`."""

    def __init__(
        self, plain: PlainStream, context: ssl.SSLContext, host: str, deadline: float
    ) -> None:
        self._plain = plain
        self.where = plain.where
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        # The object that `ssl.SSLObject` delegates to: one Python call less for each record.
        handed_on: Any = getattr(self._tls, "_sslobj", self._tls)
        self._read: Callable[[int, memoryview], int] = handed_on.read
        self._write: Callable[[Buffer], int] = handed_on.write
        self._stage = memoryview(bytearray(_STAGE))
        try:
            self._handshake(deadline)
        except ssl.SSLCertVerificationError as refused:
            raise KafkaUnavailable(
                f"Cluster {self.where}: the server's certificate is not accepted "
                f"({refused.verify_message}). Check the CA and the host name that is connected to.",
                code="tls_certificate",
            ) from None
        except ssl.SSLError as error:
            raise KafkaUnavailable(
                f"Cluster {self.where}: the TLS handshake failed ({_reason(error)}). Check that "
                "this port speaks TLS, and the client certificate if the cluster asks for one.",
                code="tls",
            ) from None

    def _handshake(self, deadline: float) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._flush(deadline)
                self._fill(deadline)
                continue
            self._flush(deadline)
            return

    def fileno(self) -> int:
        return self._plain.fileno()

    def pending(self) -> bool:
        return self._tls.pending() > 0 or self._incoming.pending > 0

    def receive_into(self, view: memoryview, deadline: float) -> None:
        at, size = 0, len(view)
        read = self._read
        while at < size:
            try:
                got = read(size - at, view[at:])
            except ssl.SSLWantReadError:
                self._fill(deadline, size - at - _RECORD)
                continue
            except ssl.SSLError as error:
                raise self._broken(error) from None
            if not got:
                raise connection_lost(self.where, None)
            at += got

    def send(self, parts: Sequence[Buffer], deadline: float) -> None:
        waiting: list[Buffer] = []
        size = 0
        for part in parts:
            if size + len(part) < _MAX_WAKEUP_BYTES:
                waiting.append(part)
                size += len(part)
                continue
            rest = memoryview(part)
            while size + len(rest) >= _MAX_WAKEUP_BYTES:
                room = _MAX_WAKEUP_BYTES - size
                waiting.append(rest[:room])
                self._send(waiting, deadline)
                waiting, size, rest = [], 0, rest[room:]
            if len(rest):
                waiting.append(rest)
                size = len(rest)
        if waiting:
            self._send(waiting, deadline)

    def _send(self, parts: list[Buffer], deadline: float) -> None:
        try:
            self._write(parts[0] if len(parts) == 1 else b"".join(parts))
        except ssl.SSLError as error:
            raise self._broken(error) from None
        self._flush(deadline)

    def _broken(self, error: ssl.SSLError) -> KafkaUnavailable:
        return KafkaUnavailable(
            f"Cluster {self.where}: the TLS connection broke ({_reason(error)}).",
            code="connection_lost",
        )

    def _fill(self, deadline: float, surely: int = 0) -> None:
        """Receive what is there. Wait for more only if `surely` bytes will arrive.

        A broker sends record by record. Waking up for each costs more than receiving many at once.
        """
        stage = self._stage
        if surely < _RECORD:
            surely = 0
        elif surely < _STAGE:
            stage = stage[:surely]
        got = self._plain.receive_some(stage, deadline, surely)
        self._incoming.write(stage[:got])

    def _flush(self, deadline: float) -> None:
        if self._outgoing.pending:
            self._plain.send([self._outgoing.read()], deadline)

    def close(self) -> None:
        self._plain.close()


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "unknown cause").replace("_", " ").lower()
