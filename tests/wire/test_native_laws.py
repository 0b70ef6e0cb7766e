"""The C functions read and write headers, requests and responses as the Python code does."""

from __future__ import annotations

import contextlib
import random
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_runner.kafka_protocol import batch_header as batches
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.batch_header import HEADER_SIZE, BatchStamper, Header, Sequences
from spark_runner.native import c_functions
from tests.machine_code import c_module_alone
from tests.wire.batch_strategies import starved_groups

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module", autouse=True)
def _is_made() -> None:
    c_module_alone()


def test_these_tests_compare_two_things() -> None:
    assert c_functions.c_module is None
    assert c_module_alone().__file__


@st.composite
def logs(draw: st.DrawFn) -> bytearray:
    """What a reply may hold: whole batches, other formats, rubbish, a cut one."""
    out = bytearray()
    for one in draw(starved_groups()):
        out += one.memory
    for _ in range(draw(st.integers(0, 3))):
        out[draw(st.integers(0, len(out) - 1))] ^= draw(st.integers(1, 255))
    return out[: draw(st.integers(0, len(out)))]


@given(logs(), st.integers(0, 70), st.sampled_from([0, 1, 2, 1 << 12]))
def test_headers_are_read_as_the_python_reads_them(log: bytearray, start: int, most: int) -> None:
    start = min(start, len(log))
    memory = memoryview(log)
    found, at = c_module_alone().headers(memory, start, len(log), Header, most)
    assert (found, at) == batches.headers(memory, start, len(log), most)
    assert [hash(header) for header in found] == [hash(Header(*header)) for header in found]
    assert all(type(header) is Header for header in found)


@given(
    st.binary(min_size=HEADER_SIZE, max_size=HEADER_SIZE),
    st.integers(0, 1 << 21) | st.integers(0, 70_000),
    st.booleans(),
    st.integers(0, 2**62),
    st.integers(0, 2**15 - 1),
    st.integers(0, 2**31 - 1),
)
def test_the_pen_writes_what_the_python_writes(
    raw: bytes, behind: int, transactional: bool, producer: int, epoch: int, sequence: int
) -> None:
    one = bytearray(raw) + bytes(behind)
    one[8:12] = (len(one) - 12).to_bytes(4, "big")
    one[57:61] = (7).to_bytes(4, "big")
    one[22] &= ~batches.CONTROL
    other = bytearray(one)
    header = Header._make(batches.HEADER.unpack_from(one))
    pen, sequences = BatchStamper(transactional=transactional), Sequences()
    pen.take(producer, epoch)
    sequences.take(producer, epoch, 1)
    sequences.take_back(sequence)
    pen.write(memoryview(one), 0, header, sequences)
    attributes = header.attributes & 7 | (16 if transactional else 0)
    c_module_alone().stamp(memoryview(other), 0, attributes, producer, epoch, sequence)
    assert one == other


def test_nothing_is_stamped_where_there_is_no_header() -> None:
    for size, length in ((60, 49), (61, 48), (61, -1)):
        memory = bytearray(size)
        memory[8:12] = length.to_bytes(4, "big", signed=True)
        with pytest.raises(IndexError):
            c_module_alone().stamp(memoryview(memory), 0, 0, 1, 1, 1)
        assert memory[12:] == bytes(size - 12)


_ZEROS = memoryview(bytearray(3 << 20))
_keys = st.binary(min_size=16, max_size=16) | st.text(max_size=80).map(produce.name_key)
_rows = st.lists(
    st.tuples(
        st.binary(min_size=4, max_size=4),
        st.integers(61, 3 << 20).map(lambda size: _ZEROS[:size]),
    ),
    max_size=5,
)


@given(st.lists(st.tuples(_keys, _rows), max_size=4), st.none() | st.text(min_size=1, max_size=90))
def test_requests_are_laid_out_as_the_python_does_it(
    topics: list[tuple[bytes, list[tuple[bytes, memoryview]]]], name: str | None
) -> None:
    writer = produce.RequestWriter(13, name, timeout_ms=30_000)
    wanted = b"".join(writer.parts(77, topics))
    beginning = produce.request_header(produce.PRODUCE, 13, 77) + writer._preamble
    found = c_module_alone().produce_request(beginning, topics)
    assert b"".join(found) == wanted
    # The batches themselves, not copies of them.
    views = [row for _, rows in topics for _, row in rows]
    assert [part for part in found if isinstance(part, memoryview)] == views


def test_a_name_that_is_too_long_for_kafka_is_refused() -> None:
    rows = [(b"\0\0\0\1", _ZEROS[:61])] * 2
    for size in range(3_700, 4_200):
        for topic in ((b"n" * 250, rows), (b"n" * 28, rows), (b"", []), (b"n" * 28, [])):
            with contextlib.suppress(ValueError):
                found = c_module_alone().produce_request(b"x" * size, [topic] * 3)
                assert len(b"".join(found)) == 4 + int.from_bytes(found[0][:4], "big")
    with pytest.raises(ValueError, match="too long"):
        c_module_alone().produce_request(b"", [(b"n" * 5000, [])])
    with pytest.raises(TypeError):
        c_module_alone().produce_request(b"", [("text", [])])


_plain_rows = st.lists(
    st.tuples(
        st.integers(0, 2**31 - 1),
        st.integers(-1, 130),
        *[st.integers(-1, 2**63 - 1) for _ in range(3)],
    ),
    max_size=6,
)


def _frames(rows: list[tuple[int, ...]], ends: Iterator[bytes]) -> memoryview:
    out = bytearray(b"before")
    for row in rows:
        out += struct.pack(">ihqqq", *row) + next(ends)
    return memoryview(out + b"\x00" * 9)


@given(_plain_rows, st.randoms(use_true_random=False))
def test_answers_are_read_as_the_python_reads_them_or_left_alone(
    rows: list[tuple[int, ...]], chance: random.Random
) -> None:
    def read(frame: memoryview) -> list[produce.ProduceResult]:
        found: list[produce.ProduceResult] = []
        produce._read_partitions(frame, 6, len(rows), b"key", found)
        return found

    ask = c_module_alone().produce_results
    frame = _frames(rows, iter([b"\x01\x00\x00"] * len(rows)))
    found = ask(frame, 6, len(rows), b"key", produce.ProduceResult)
    assert found == read(frame)
    assert all(type(answer) is produce.ProduceResult for answer in found)
    # Not all of it is there.
    assert ask(frame[: 6 + 33 * len(rows) - 1], 6, len(rows), b"key", produce.ProduceResult) is None
    if rows:
        odd = [b"\x01\x00\x00"] * len(rows)
        tagged, worded, faulty = b"\x01\x00\x01\x05\x00", b"\x01\x03no\x00", b"\x02\x00\x00\x00"
        odd[chance.randrange(len(rows))] = chance.choice((tagged, worded, faulty + bytes(5)))
        assert ask(_frames(rows, iter(odd)), 6, len(rows), b"key", produce.ProduceResult) is None
