"""Headers alone show whether the first offsets of a log are all records."""

from __future__ import annotations

import pytest

from spark_runner.kafka_protocol.batch_header import CONTROL, TRANSACTIONAL, Header
from spark_runner.status.owed_headers import are_dense


def header(first: int, last: int, *, records: int | None = None, attributes: int = 0) -> Header:
    count = last - first + 1 if records is None else records
    return Header(first, 100, 0, 2, 0, attributes, last - first, 1_000, 1_000, -1, -1, -1, count)


def test_records_without_a_hole_are_dense_wherever_the_first_batch_begins() -> None:
    assert are_dense([header(0, 4), header(5, 5), header(6, 9)], 0)
    # The log was truncated in the middle of a batch: the broker sends the whole batch.
    assert are_dense([header(0, 4), header(5, 5)], 3)


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [header(2, 4)],
        [header(0, 4), header(6, 9)],
        [header(0, 4, records=4)],
        [header(0, 4, attributes=TRANSACTIONAL)],
        [header(0, 4), header(5, 5, attributes=TRANSACTIONAL | CONTROL)],
    ],
    ids=["nothing", "late", "hole", "compacted", "transaction", "marker"],
)
def test_a_hole_a_marker_or_a_transaction_is_not_dense(headers: list[Header]) -> None:
    assert not are_dense(headers, 0)
