"""Orphans that cannot all be read: what was read is counted, and the rest is an upper bound."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.failback.divergence import Divergence
from mirrors.domain.failback.reverse_flow import Side
from mirrors.kafka.internal_topics.topic import InternalRecord
from mirrors.services.failback import orphans
from tests.failback_rows import going_back
from tests.pages import world

pytestmark = pytest.mark.django_db


def point(partition: int) -> Divergence:
    return Divergence(
        topic="orders", partition=partition, remote_topic="primary.orders", position=10,
        downstream=10, end=10, how="runs", source_cluster="", source_topic_id="", target_cluster="",
        target_topic_id="", mark="m", at=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KafkaUnavailable("in time", code="timeout"), "more than can be read"),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "bad"), "whose name is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_at_most_its_offsets(
    monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def consume(*_: Any) -> Iterator[InternalRecord]:
        for partition, offset in ((0, 10), (0, 12), (1, 10)):
            yield InternalRecord(partition, offset, 1, b"k", b"v")
        raise error

    monkeypatch.setattr(orphans, "consume", consume)
    run = going_back(world.flow())
    partitions = [("orders", 0), ("orders", 1)]
    old = Side(
        cluster="A", topic_ids={}, first=dict.fromkeys(partitions, 0),
        end={partitions[0]: 30, partitions[1]: 11},
    )  # fmt: skip
    rows = orphans.list_orphans(
        run=run, source=run.flow.source.spec, points=[point(0), point(1)], old=old, back=None,
        tick=lambda: None,
    )  # fmt: skip
    found = {row.partition: (row.records, row.certainty, row.kept) for row in rows}
    # Of [13, 30) nothing was read.
    assert found == {0: (2 + 17, "at_most", 2), 1: (1, "counted", 1)}
    assert words in rows[0].reason
    assert "up to offset 13" in rows[0].reason


def test_a_source_that_does_not_answer_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def consume(*_: Any) -> Iterator[InternalRecord]:
        raise KafkaUnavailable("gone", code="unreachable")

    monkeypatch.setattr(orphans, "consume", consume)
    run = going_back(world.flow())
    old = Side(cluster="A", topic_ids={}, first={("orders", 0): 0}, end={("orders", 0): 30})
    with pytest.raises(KafkaUnavailable):
        orphans.list_orphans(
            run=run, source=run.flow.source.spec, points=[point(0)], old=old, back=None,
            tick=lambda: None,
        )  # fmt: skip
