"""The checker finds every way in which a copy can differ, and only those."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from controlplane.demo.verification.topics import compare_clusters, compare_topics, partition_counts

START = 1_700_000_000_000


@dataclasses.dataclass(frozen=True)
class Row:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int = START


ROWS = [
    Row(
        b"k%d" % (number % 7),
        None if number % 13 == 5 else b"value %d" % number,
        (("a", b"1"), ("a", b"2"), ("none", None)) if number % 3 == 0 else (),
        START + number,
    )
    for number in range(60)
]


def create(cluster: str, topic: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster})
    settings = {name.replace("_", "."): value for name, value in config.items()}
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=settings)
    for future in admin.create_topics([new]).values():
        future.result(60)
    until = time.monotonic() + 30
    while topic not in partition_counts(cluster) and time.monotonic() < until:
        time.sleep(0.05)


def write(cluster: str, topic: str, rows: Sequence[Row], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": cluster, "linger.ms": 5, "acks": "all"})
    for row in rows:
        producer.produce(
            topic,
            partition=partition,
            key=row.key,
            value=row.value,
            headers=list(row.headers),
            timestamp=row.timestamp,
        )
    assert producer.flush(60) == 0


def changed(index: int, **fields: object) -> list[Row]:
    rows = list(ROWS)
    rows[index] = dataclasses.replace(rows[index], **fields)  # type: ignore[arg-type]
    return rows


# A copy, and the words that the sentence about its damage must hold (none: no difference).
COPIES: dict[str, tuple[list[Row], list[str]]] = {
    "faithful": (ROWS, []),
    "flipped bit": (
        changed(7, value=b"valuf 7"),
        ["offset 7", "value b'value 7' became b'valuf 7'"],
    ),
    "null became empty": (changed(5, value=b""), ["offset 5", "value None became b''"]),
    "key lost": (changed(9, key=None), ["offset 9", "key b'k2' became None"]),
    "timestamp moved": (
        changed(9, timestamp=START + 8),
        ["offset 9", f"timestamp {START + 9} became {START + 8}"],
    ),
    "headers in another order": (
        changed(3, headers=(("a", b"2"), ("a", b"1"), ("none", None))),
        ["offset 3", "headers"],
    ),
    "header lost": (changed(3, headers=(("a", b"1"), ("a", b"2"))), ["offset 3", "headers"]),
    "null header became empty": (
        changed(3, headers=(("a", b"1"), ("a", b"2"), ("none", b""))),
        ["offset 3", "headers"],
    ),
    "dropped": (
        [*ROWS[:20], *ROWS[21:]],
        ["offset 20 is missing", "60 records, the target 59", "in all 1 missing (offset 20)"],
    ),
    "last dropped": (ROWS[:-1], ["offset 59 is missing"]),
    "doubled later": ([*ROWS, ROWS[4]], ["offset 60 is extra", "it doubles offset 4"]),
    "a stretch doubled and one lost": (
        [*ROWS[:30], *ROWS[10:30], *ROWS[31:]],
        ["offset 30 is", "in all 1 missing (offset 30), 20 doubled (offsets 30 to 49)"],
    ),
    "doubled at once": (
        [*ROWS[:30], ROWS[29], *ROWS[30:]],
        ["offset 30 is extra", "doubles offset 29"],
    ),
    "foreign record": (
        [*ROWS[:30], Row(b"x", b"x"), *ROWS[30:]],
        ["offset 30 is extra", "in all 1 foreign (offset 30)"],
    ),
    "swapped": (
        [*ROWS[:10], ROWS[11], ROWS[10], *ROWS[12:]],
        ["offset 10", "swapped", "in all the same records in another order"],
    ),
    "nothing there": ([], ["offset 0 is missing", "the target 0", "60 missing (offsets 0 to 59)"]),
}


@pytest.fixture(scope="module")
def sentences(primary: str, backup: str) -> dict[str, str]:
    """What one comparison of all those copies says of each."""
    run = f"verify-{secrets.token_hex(4)}"
    pairs = {f"{run}-{n}": f"p.{run}-{n}" for n in range(len(COPIES))}
    for (topic, remote), (copy, _) in zip(pairs.items(), COPIES.values(), strict=True):
        create(primary, topic)
        create(backup, remote)
        write(primary, topic, ROWS)
        write(backup, remote, copy)
    result = compare_topics(primary, backup, pairs)
    assert result.records == len(ROWS) * len(COPIES)
    found = {difference.topic: difference.sentence for difference in result.differences}
    return {name: found.get(topic, "") for name, topic in zip(COPIES, pairs, strict=True)}


@pytest.mark.parametrize("name", COPIES)
def test_damage_is_found_and_named(sentences: dict[str, str], name: str) -> None:
    words = COPIES[name][1]
    assert bool(sentences[name]) == bool(words)
    for word in words:
        assert word in sentences[name]


def test_a_record_in_another_partition_is_found(primary: str, backup: str) -> None:
    topic = f"verify-{secrets.token_hex(4)}"
    for cluster, partition in ((primary, 0), (backup, 1)):
        create(cluster, topic, partitions=2)
        write(cluster, topic, ROWS[:3], partition)
    found = compare_topics(primary, backup, {topic: topic}).differences
    assert [difference.partition for difference in found] == [0, 1]


def test_topics_and_partition_counts_are_compared(primary: str, backup: str) -> None:
    name = secrets.token_hex(4)
    create(primary, f"{name}-lost")
    create(primary, f"{name}-grown", partitions=3)
    create(backup, f"p.{name}-grown", partitions=2)
    create(backup, f"p.{name}-extra")
    result = compare_clusters(
        primary,
        backup,
        lambda topic: f"p.{topic}" if topic.startswith(name) else None,
        owned=f"p.{name}",
    )
    assert sorted(map(str, result.differences)) == [
        f"{name}-grown has 3 partitions, p.{name}-grown has 2",
        f"{name}-lost is on the source, p.{name}-lost is not on the target",
        f"p.{name}-extra is on the target, its source topic is not",
    ]


def test_aborted_records_and_markers_do_not_count(primary: str, backup: str) -> None:
    topic = f"verify-{secrets.token_hex(4)}"
    create(primary, topic)
    create(backup, topic)
    producer = Producer({"bootstrap.servers": primary, "transactional.id": topic})
    producer.init_transactions(20)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(topic, value=b"%d" % number, partition=0, timestamp=START + number)
        if number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    write(backup, topic, [Row(None, b"%d" % n, (), START + n) for n in (0, 2, 4)])
    result = compare_topics(primary, backup, {topic: topic})
    assert (result.records, result.differences) == (3, ())


def compacted_away(cluster: str, topic: str, rows: Sequence[Row]) -> None:
    """Write rows to a topic that is compacted at once, and wait until it was."""
    create(
        cluster,
        topic,
        cleanup_policy="compact",
        min_cleanable_dirty_ratio="0.001",
        segment_bytes="1048576",
        segment_ms="100",
        delete_retention_ms="60000",
    )
    write(cluster, topic, rows)
    time.sleep(0.3)
    # Only a closed segment is compacted: one more record rolls it.
    write(cluster, topic, [Row(b"last", b"last", (), START + 1000)])
    until = time.monotonic() + 30
    probe = Row(None, None)
    while time.monotonic() < until and probe is not None:
        result = compare_topics(cluster, cluster, {topic: topic})
        if result.records < len(rows) + 1:
            return
        time.sleep(0.3)
    pytest.fail("the broker did not compact")


def test_a_compacted_source_may_have_forgotten_what_later_records_replaced(
    primary: str, backup: str
) -> None:
    topic = f"verify-{secrets.token_hex(4)}"
    history = [Row(b"k%d" % (n % 4), b"%d" % n, (), START + n) for n in range(40)]
    last = Row(b"last", b"last", (), START + 1000)
    compacted_away(primary, topic, history)
    for name, rows, words in [
        ("whole", [*history, last], ""),
        ("tail", [*history[-4:], last], ""),
        ("swapped", [*history[-3:-1], history[-4], history[-1], last], "before its predecessor"),
        ("lost", [*history[-3:], last], "missing on the target, and it is the last of its key"),
        ("stale", [*history[-8:-4], last], "is another record"),
        ("extra", [*history, Row(b"new", b"", (), START), last], "is extra on the target"),
    ]:
        create(backup, f"{topic}-{name}", cleanup_policy="compact")
        write(backup, f"{topic}-{name}", rows)
        found = compare_topics(primary, backup, {topic: f"{topic}-{name}"}).differences
        assert (words in str(found[0])) if words else not found, (name, found)
