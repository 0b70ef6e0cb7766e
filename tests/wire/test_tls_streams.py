"""TLS over own buffers: bytes in order, whatever the sizes of records and reads."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from controlplane.bench.brokers import write_certificate
from controlplane.demo.processes.ports import HOST
from mirrors.domain.errors import KafkaUnavailable
from spark_runner.kafka_protocol.tcp_stream import PlainStream
from spark_runner.kafka_protocol.tls_stream import TlsStream

DEADLINE_S = 20.0
RECORD = 16_384


class CountingStream(PlainStream):
    """A connection that counts how often the kernel was asked for bytes."""

    asked = 0

    def receive_some(self, view: memoryview, deadline: float, surely: int = 0) -> int:
        self.asked += 1
        return super().receive_some(view, deadline, surely)


class Server:
    """Says its pieces one by one, each as a TLS record or several, then waits to be closed."""

    def __init__(self, store: Path, pieces: Sequence[bytes], pause_s: float = 0.0) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(store)
        self._pieces, self._pause_s = pieces, pause_s
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        plain, _ = self._listener.accept()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._context.wrap_socket(plain, server_side=True) as end:
            for piece in self._pieces:
                end.sendall(piece)
                time.sleep(self._pause_s)
            end.recv(1)

    def close(self) -> None:
        self._thread.join(DEADLINE_S)
        self._listener.close()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return write_certificate(tmp_path_factory.mktemp("tls"))


def connect(server: Server, trusted: Path) -> tuple[TlsStream, CountingStream]:
    plain = CountingStream(socket.create_connection((HOST, server.port)), "here")
    context = ssl.create_default_context(cafile=str(trusted))
    return TlsStream(plain, context, HOST, time.monotonic() + DEADLINE_S), plain


def read(stream: TlsStream, sizes: Sequence[int], within_s: float = DEADLINE_S) -> list[bytes]:
    found = []
    for size in sizes:
        memory = memoryview(bytearray(size))
        stream.receive_into(memory, time.monotonic() + within_s)
        found.append(bytes(memory))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_what_was_sent_however_both_are_cut(
    keys: tuple[Path, Path], seed: int
) -> None:
    dice = random.Random(seed)
    edges = [1, 5, RECORD - 1, RECORD, RECORD + 1, 2 * RECORD, 3 * RECORD + 7, 300_000]
    pieces = [dice.randbytes(dice.choice(edges)) for _ in range(20)]
    whole = b"".join(pieces)
    sizes, left = [], len(whole)
    while left:
        sizes.append(min(left, dice.choice([1, 4, 61, RECORD, 2 * RECORD + 1, 70_000, 400_000])))
        left -= sizes[-1]
    server = Server(keys[0], pieces)
    stream, _ = connect(server, keys[1])
    assert b"".join(read(stream, sizes)) == whole
    stream.close()
    server.close()


def test_a_long_answer_in_many_records_is_not_taken_record_by_record(
    keys: tuple[Path, Path],
) -> None:
    dice = random.Random(7)
    pieces = [dice.randbytes(RECORD) for _ in range(128)]
    server = Server(keys[0], pieces, pause_s=0.001)
    stream, plain = connect(server, keys[1])
    before = plain.asked
    assert read(stream, [128 * RECORD]) == [b"".join(pieces)]
    assert plain.asked - before < 32
    stream.close()
    server.close()


def test_an_answer_that_stops_half_way_is_given_up_at_its_deadline(
    keys: tuple[Path, Path],
) -> None:
    server = Server(keys[0], [bytes(200_000)])
    stream, _ = connect(server, keys[1])
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable) as found:
        read(stream, [1_000_000], within_s=0.5)
    assert found.value.code == "timeout"
    assert time.monotonic() - began < DEADLINE_S / 2
    stream.close()
    server.close()


class Listener:
    """Takes what it is sent, and counts the TLS records."""

    def __init__(self, store: Path) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(store)
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = b""
        self.records: list[int] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        plain, _ = self._listener.accept()
        is_done = False
        while got := plain.recv(1 << 16):
            self._incoming.write(got)
            try:
                if not is_done:
                    self._tls.do_handshake()
                    is_done = True
                # One call of OpenSSL's gives what one record holds.
                while piece := self._tls.read(1 << 20):
                    self.heard += piece
                    self.records.append(len(piece))
            except ssl.SSLWantReadError:
                pass
            finally:
                if self._outgoing.pending:
                    plain.sendall(self._outgoing.read())
        plain.close()

    def close(self) -> None:
        self._thread.join(DEADLINE_S)
        self._listener.close()


@pytest.mark.parametrize("seed", range(6))
def test_what_is_sent_arrives_in_whole_records_however_it_is_cut(
    keys: tuple[Path, Path], seed: int
) -> None:
    dice = random.Random(seed)
    sizes = [1, 10, 61, RECORD, 33_000, 131_071, 131_072, 131_073, 400_000]
    parts = [dice.randbytes(dice.choice(sizes)) for _ in range(30)]
    listener = Listener(keys[0])
    plain = PlainStream(socket.create_connection((HOST, listener.port)), "here")
    context = ssl.create_default_context(cafile=str(keys[1]))
    stream = TlsStream(plain, context, HOST, time.monotonic() + DEADLINE_S)
    stream.send(parts, time.monotonic() + DEADLINE_S)
    plain.socket.shutdown(socket.SHUT_WR)
    listener.close()
    stream.close()
    whole = b"".join(parts)
    assert listener.heard == whole
    assert listener.records[:-1] == [RECORD] * (len(whole) // RECORD)
