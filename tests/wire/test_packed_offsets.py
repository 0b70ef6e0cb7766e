"""ListOffsets of many partitions has the bytes that kafka-python gives, and reads its responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from mirrors.kafka.protocol import messages
from mirrors.kafka.protocol.connection_errors import NotKafka
from mirrors.kafka.protocol.packed_offsets import VERSION, PackedListOffsets

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(min_size=1, max_size=20)
WANTED = st.dictionaries(NAMES, st.lists(st.tuples(INT32, INT32), max_size=5), max_size=4)
ROWS = st.lists(st.tuples(INT32, INT16, INT64, INT64, INT32), max_size=5)


@given(WANTED, INT64, st.sampled_from((0, 1)), INT32, st.text(max_size=10))
def test_the_bytes_are_those_of_another_client(
    wanted: dict[str, list[tuple[int, int]]], at: int, isolation: int, number: int, client: str
) -> None:
    topic = ListOffsetsRequest.ListOffsetsTopic
    other = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartition(
                        partition_index=partition, current_leader_epoch=epoch, timestamp=at
                    )
                    for partition, epoch in rows
                ],
            )
            for name, rows in wanted.items()
        ],
    )
    packed = PackedListOffsets(wanted, at=at, isolation=isolation)
    assert packed.encode(VERSION, number, client) == messages.encode(other, VERSION, number, client)


def response(topics: dict[str, list[tuple[int, int, int, int, int]]], throttle: int) -> memoryview:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    reply = ListOffsetsResponse(
        throttle_time_ms=throttle,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ListOffsetsPartitionResponse(
                        partition_index=partition,
                        error_code=error,
                        timestamp=timestamp,
                        offset=offset,
                        leader_epoch=epoch,
                    )
                    for partition, error, timestamp, offset, epoch in rows
                ],
            )
            for name, rows in topics.items()
        ],
    )
    return memoryview(bytes(4) + reply.encode(version=VERSION))


@given(st.dictionaries(NAMES, ROWS, max_size=4), st.integers(0, 2**31 - 1))
def test_a_response_has_the_rows_that_another_client_wrote(
    topics: dict[str, list[tuple[int, int, int, int, int]]], throttle: int
) -> None:
    found = PackedListOffsets({}, at=-1, isolation=0).decode(VERSION, response(topics, throttle))
    assert found.throttle_time_ms == throttle
    assert found.topics == {
        name: [(partition, error, offset) for partition, error, _, offset, _ in rows]
        for name, rows in topics.items()
    }


@given(st.dictionaries(NAMES, ROWS, min_size=1, max_size=3), st.data())
def test_a_response_that_ends_too_early_is_no_response(
    topics: dict[str, list[tuple[int, int, int, int, int]]], data: st.DataObject
) -> None:
    whole = response(topics, 0)
    short = whole[: data.draw(st.integers(0, len(whole) - 1))]
    with pytest.raises(NotKafka):
        PackedListOffsets({}, at=-1, isolation=0).decode(VERSION, short)
