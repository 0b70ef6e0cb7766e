"""When a producer's epochs (int16) run out, the coordinator assigns another producer id."""

from __future__ import annotations

import itertools

import pytest
from kafka.protocol.producer import InitProducerIdRequest

from mirrors.kafka.producers.identity import ProducerIdentity
from mirrors.kafka.protocol import messages
from tests.wire.running import PARTITIONS, Running
from tests.wire.world import Flow, Side, bare, soon, unique

LAST = 32_766
LEFT = 12
AT_ONCE = 200


def wear_out(side: Side, name: str, until: int) -> int:
    """Have the coordinator count this id's epochs up, as one producer after the other would."""
    ((node, _),) = side.client.brokers.items()
    connection = side.client.connection(node, "wear out", soon())
    version = connection.version(InitProducerIdRequest.API_KEY, 3, 5, "InitProducerId")
    request = InitProducerIdRequest(
        transactional_id=name, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    identity = ProducerIdentity(side.client, name, timeout_ms=60_000)
    identity.fence(soon())  # waits for the coordinator to be there
    epoch = identity.epoch
    repeated = messages.RepeatedRequest(request)
    while epoch < until:
        count = min(AT_ONCE, until - epoch)
        connection.send(
            [repeated.encode(version, connection.next_correlation(), "test") for _ in range(count)],
            soon(),
        )
        for _ in range(count):
            frame = connection.receive(None, soon())
        # Only the last says something new: they are answered in order.
        reply = messages.decode(request, version, frame)
        epoch = max(epoch, reply.producer_epoch)
    return identity.producer_id


@pytest.mark.soak  # a quarter of a minute until the epochs are counted up
def test_the_copy_goes_on_under_another_producer_id(
    source: Side, target: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = unique("epochs")
    source.make(topic, PARTITIONS)
    flow = Flow(source, target, commit_interval_ms="20")
    remote = flow.add(topic)
    first = wear_out(target, flow.work().transactional_id, LAST - LEFT)
    seen: list[tuple[int, int]] = []
    plain = ProducerIdentity.end

    def end(identity: ProducerIdentity, *, commit: bool, deadline: float) -> bool:
        moved = plain(identity, commit=commit, deadline=deadline)
        seen.append((identity.producer_id, identity.epoch))
        return moved

    monkeypatch.setattr(ProducerIdentity, "end", end)
    with Running(flow, topic) as running:
        running.write(60, pause=0.02)
        running.caught_up()
    ids = [number for number, _ in itertools.groupby(seen, key=lambda pair: pair[0])]
    assert len(ids) == 2, seen
    assert ids[0] == first != ids[1]
    assert max(epoch for number, epoch in seen if number == first) >= LAST - 1
    for partition in range(PARTITIONS):
        upstream, downstream = source.read(topic, partition), target.read(remote, partition)
        assert bare(downstream) == bare(upstream)
        pairs = {
            run.upstream + at: run.downstream + at
            for run in flow.runs(topic, partition)
            for at in range(run.length)
        }
        assert pairs == {
            above.offset: below.offset for above, below in zip(upstream, downstream, strict=True)
        }
