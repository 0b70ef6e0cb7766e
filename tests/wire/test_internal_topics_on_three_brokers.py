"""The reader of internal topics: leaders that die, and records that unclean elections lose."""

from __future__ import annotations

import contextlib

import pytest

from controlplane.demo.kafka.cluster import KafkaCluster
from mirrors.domain.errors import KafkaUnavailable
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.log_reader import LogReader, Truncated
from mirrors.kafka.retry import retry_until_available
from spark_runner.kafka_protocol.records import decode_batch
from tests.wire.replicas import partition_of, wait_for
from tests.wire.test_unclean_elections import lose_the_newest, make, records
from tests.wire.world import Side, soon, unique

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def read(reader: LogReader) -> list[bytes | None]:
    """The values of the rest, from whichever broker leads."""

    def rest() -> None:
        for batch in reader.read_committed(soon()):
            found.extend(record.value for record in decode_batch(batch.data))

    found: list[bytes | None] = []
    retry_until_available(rest, soon(90))
    return found


def test_a_read_goes_on_at_the_new_leader(three: KafkaCluster) -> None:
    topic, side = unique("internal"), Side("many", three.bootstrap)
    make(side, topic)
    for value in (b"one", b"two", b"three"):
        side.write(topic, 0, records(1, value))
    with contextlib.closing(side), contextlib.closing(Side("many", three.bootstrap)) as other:
        reader = LogReader(other.client, topic, reply_bytes=1, caches_leader=True)
        batches = reader.read_committed(soon(60))
        next(batches)
        admin = Admin(side.spec)
        leader = partition_of(admin, topic).leader
        three.brokers[leader - 1].kill()
        with pytest.raises(KafkaUnavailable):
            list(batches)
        # What was returned before the failure is not returned again.
        assert read(reader) == [b"two", b"three"]
        wait_for(lambda: partition_of(admin, topic).leader != leader, "another leader")
        assert read(reader) == []
        three.brokers[leader - 1].launch()
        three.brokers[leader - 1].wait()
        wait_for(lambda: len(partition_of(admin, topic).isrs) == 2, "both replicas are in sync")


# The log is shorter than what was read, just as long, and longer.
@pytest.mark.parametrize("later", [1, 5, 9])
def test_records_that_an_unclean_election_lost_are_not_read_over(
    three: KafkaCluster, later: int
) -> None:
    topic, side = unique("internal"), Side("many", three.bootstrap)
    make(side, topic)
    side.write(topic, 0, records(5, b"kept"))
    known = "", 0, -1

    def lost_later() -> None:
        nonlocal known
        with contextlib.closing(Side("many", three.bootstrap)) as other:
            other.write(topic, 0, records(5, b"lost"))
            reader = LogReader(other.client, topic)
            assert read(reader) == [b"kept"] * 5 + [b"lost"] * 5
            known = reader.topic_id, reader.next_offset or 0, reader.epoch

    lose_the_newest(three, topic, lost_later)
    with contextlib.closing(Side("many", three.bootstrap)) as other:
        other.write(topic, 0, records(later, b"new"))
        reader = LogReader(other.client, topic)
        reader.seek(*known)
        with pytest.raises(Truncated):
            read(reader)
        reader.restart()
        assert read(reader) == [b"kept"] * 5 + [b"new"] * later
    side.close()
