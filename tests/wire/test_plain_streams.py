"""Plain connections: bytes in order; small responses that arrived together need one call."""

from __future__ import annotations

import random
import resource
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import NoReturn

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.security.connection_settings import ConnectionFacts
from spark_runner.kafka_protocol.connection import Connection
from spark_runner.kafka_protocol.tcp_stream import Buffers, PlainStream

WITHIN_S = 20.0


class CountingStream(PlainStream):
    """A connection that counts how often the kernel was asked for bytes."""

    asked = 0

    def receive_some(self, view: memoryview, deadline: float, surely: int = 0) -> int:
        self.asked += 1
        return super().receive_some(view, deadline, surely)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, CountingStream]]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    stream = CountingStream(here, "here")
    yield there, stream
    there.close()
    stream.close()


def read(stream: PlainStream, size: int, within_s: float = WITHIN_S) -> bytes:
    memory = memoryview(bytearray(size))
    stream.receive_into(memory, time.monotonic() + within_s)
    return bytes(memory)


def say(there: socket.socket, pieces: Sequence[bytes]) -> None:
    for piece in pieces:
        there.sendall(piece)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_read_is_what_was_sent_however_both_are_cut(
    ends: tuple[socket.socket, CountingStream], seed: int
) -> None:
    dice = random.Random(seed)
    sizes = [1, 4, 300, 4095, 4096, 4097, 70_000, 131_072, 140_000, 5_000_000]
    pieces = [dice.randbytes(dice.choice(sizes)) for _ in range(40)]
    whole = b"".join(pieces)
    writer = threading.Thread(target=say, args=(ends[0], pieces))
    writer.start()
    found, left = [], len(whole)
    while left:
        found.append(read(ends[1], min(left, dice.choice(sizes))))
        left -= len(found[-1])
    writer.join(WITHIN_S)
    assert b"".join(found) == whole
    assert not ends[1].pending()


def test_small_answers_that_came_together_are_taken_in_one_call(
    ends: tuple[socket.socket, CountingStream],
) -> None:
    there, stream = ends
    there.sendall(b"four" + b"a" * 300 + b"more" + b"b" * 200)
    assert (read(stream, 4), read(stream, 300)) == (b"four", b"a" * 300)
    assert stream.pending()
    assert (read(stream, 4), read(stream, 200)) == (b"more", b"b" * 200)
    assert not stream.pending()
    assert stream.asked == 1


def test_a_long_answer_is_not_woken_for_piece_by_piece(
    ends: tuple[socket.socket, CountingStream],
) -> None:
    there, stream = ends

    def say_slowly() -> None:
        for _ in range(256):
            there.sendall(bytes(16_384))
            time.sleep(0.001)

    writer = threading.Thread(target=say_slowly)
    writer.start()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    assert read(stream, 256 * 16_384) == bytes(256 * 16_384)
    waits = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before
    writer.join(WITHIN_S)
    assert waits < 64
    there.sendall(b"more")
    assert select.select([stream], [], [], WITHIN_S)[0], "nobody is woken for few bytes again"
    assert read(stream, 4) == b"more"


def test_a_buffer_of_a_chosen_size_is_not_waited_for_until_it_is_full() -> None:
    """Its sender would stand still meanwhile."""
    assert Buffers(receive=400_000).together == 100_000
    assert Buffers().together == Buffers(receive=1 << 30).together == 1 << 19


def test_a_long_answer_that_comes_slowly_has_all_of_its_time(
    ends: tuple[socket.socket, CountingStream],
) -> None:
    """The kernel's own time may be half of that: what was woken for had not come by then."""
    there, stream = ends
    there.sendall(b"first")
    assert read(stream, 5, within_s=2) == b"first"
    parts = [(0.2, 100_000), (2.5, 300_000)]
    timers = [threading.Timer(after, there.sendall, [bytes(size)]) for after, size in parts]
    for timer in timers:
        timer.start()
    assert len(read(stream, 400_000, within_s=3.8)) == 400_000
    for timer in timers:
        timer.join(WITHIN_S)


def test_a_long_answer_that_stops_half_way_is_given_up_at_its_deadline(
    ends: tuple[socket.socket, CountingStream],
) -> None:
    ends[0].sendall(bytes(300_000))
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable) as found:
        read(ends[1], 10_000_000, within_s=0.5)
    assert found.value.code == "timeout"
    assert 0.4 < time.monotonic() - began < 5


def test_a_small_answer_that_stops_half_way_is_given_up_at_its_deadline(
    ends: tuple[socket.socket, CountingStream],
) -> None:
    ends[0].sendall(b"abc")
    with pytest.raises(KafkaUnavailable) as found:
        read(ends[1], 10, within_s=0.3)
    assert found.value.code == "timeout"


def test_an_answer_that_ends_with_the_connection_says_so(
    ends: tuple[socket.socket, CountingStream],
) -> None:
    ends[0].sendall(b"abc")
    ends[0].close()
    with pytest.raises(KafkaUnavailable) as found:
        read(ends[1], 10)
    assert found.value.code == "connection_lost"


def facts_of(host: str) -> ConnectionFacts:
    return ConnectionFacts(alias="primary", bootstrap=((host, 9092),))


def test_a_host_name_that_is_not_resolved_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = threading.Event()

    def hangs(*_: object, **__: object) -> NoReturn:
        asked.set()
        time.sleep(5)
        raise socket.gaierror(socket.EAI_AGAIN, "")

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    began = time.monotonic()
    with pytest.raises(KafkaUnavailable, match="not resolved in time") as told:
        Connection(facts_of("broker.example"), "broker.example", 9092).connect(began + 0.3)
    assert told.value.code == "dns"
    assert asked.is_set()
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("host", ["no-such-host.invalid", f"{'a' * 70}.example"])
def test_a_host_name_that_nobody_knows_is_told(host: str) -> None:
    with pytest.raises(KafkaUnavailable, match="cannot be resolved") as told:
        Connection(facts_of(host), host, 9092).connect(time.monotonic() + WITHIN_S)
    assert told.value.code == "dns"
