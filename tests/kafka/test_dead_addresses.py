"""Any address of bootstrap.servers that answers serves, for each conversation with a cluster.

The first conversation of a process pays one bounded attempt for a silent address, the next none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.internal_topics.records import Heartbeat
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import groups, temporary_groups
from mirrors.kafka.admin.acls import Acls
from mirrors.kafka.admin.client_fence import ClientFence
from mirrors.kafka.admin.groups import delete_group, delete_offsets
from mirrors.kafka.admin.permissions import describe_permissions
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.cluster_requests import ClusterRequests
from mirrors.kafka.connection_test.probe import probe
from mirrors.kafka.internal_topics import heartbeats, topic_tail
from mirrors.kafka.internal_topics import topic as internal
from mirrors.kafka.producers import transactions
from mirrors.kafka.producers.fence import fence
from mirrors.kafka.producers.flow_writer import FlowWriter, ProducerRecord
from mirrors.kafka.protocol import addresses, sockets
from mirrors.kafka.protocol.addresses import ADDRESS_HISTORY
from mirrors.kafka.reading.samples import read_windows
from mirrors.kafka.security import egress
from spark_runner.kafka_protocol.cluster import ClusterClient, MetadataPoller
from spark_runner.status.source_offsets import OffsetSampler
from tests.dead_addresses import KINDS

Conversation = Callable[[ClusterSpec, str], object]
# Beyond the bound of one attempt: what the conversation itself takes on a busy machine.
USUAL_S = 6.0


def _id() -> str:
    return f"dead-{uuid.uuid4().hex[:10]}"


def list_groups(spec: ClusterSpec, topic: str) -> object:
    return groups.list_groups(spec)


def move_group(spec: ClusterSpec, topic: str) -> None:
    tp, group = (topic, 0), _id()
    assert not groups.write_offsets(spec, group, {tp: groups.GroupOffset(0)}).failed
    seen = groups.read_offsets(spec, {group: [tp]}).raise_first().done[group]
    assert seen.done[tp].offset == 0
    assert not delete_offsets(spec, group, [tp]).failed
    delete_group(spec, group)


def rights(spec: ClusterSpec, topic: str) -> None:
    assert not describe_permissions(spec, topics=[topic], groups=[_id()]).trouble


def access_rules(spec: ClusterSpec, topic: str) -> None:
    with Acls(spec) as acls:
        acls.rules()


def look_at_topics(spec: ClusterSpec, topic: str) -> None:
    with Admin(spec) as admin:
        assert topic in admin.snapshot([topic], now=0).topics
        admin.list_offsets([(topic, 0)], "latest").raise_first()


def tail(spec: ClusterSpec, topic: str) -> None:
    reader = topic_tail.TopicReader(spec)
    with contextlib.closing(reader):
        found = reader.find(topic, topic_tail.LogPosition(), deadline_s=15)
        assert found is not None
        internal.append(spec, topic, [internal.NewRecord(b"k", b"v")])
        again = reader.find(topic, found.end_position, deadline_s=15)
        assert again is not None
        assert again.records is not None, "it went the long way"


def read_records(spec: ClusterSpec, topic: str) -> None:
    internal.append(spec, topic, [internal.NewRecord(b"k", b"v")])
    with Admin(spec) as admin:
        assert internal.read_to_end(admin, topic)
    assert not read_windows(spec, {(topic, 0): [(0, 1)]}, deadline_s=15).failed


def fence_ids(spec: ClusterSpec, topic: str) -> None:
    fence(spec, [_id()], [(topic, 0)], deadline_s=15)


def write_as_flow(spec: ClusterSpec, topic: str) -> None:
    pen = FlowWriter(spec, _id())
    pen.take_over(positions_topic=topic, runs_topic=topic, slices=1, deadline_s=20)
    with pen.transaction(deadline_s=10):
        pen.send([ProducerRecord(topic=topic, partition=0, key=b"k", value=b"v")], deadline_s=10)


def transact(spec: ClusterSpec, topic: str) -> None:
    producer = transactions.open_producer(spec, _id())
    transactions.take_over(producer, spec, deadline_s=15)


def beat(spec: ClusterSpec, topic: str) -> None:
    heartbeats.ensure_topic(spec, replication_factor=1, deadline_s=15)
    writer = heartbeats.HeartbeatProducer(spec)
    assert not writer.write([Heartbeat("a", "b", 1)], deadline_s=10)
    writer.close()


def find_leftovers(spec: ClusterSpec, topic: str) -> None:
    temporary_groups.find_groups(spec, f"{temporary_groups.PREFIX}x")


def ask_as_engine(spec: ClusterSpec, topic: str) -> None:
    with contextlib.closing(ClusterClient(spec)) as client:
        client.open(time.monotonic() + 15)
        assert client.describe([topic], time.monotonic() + 5)[topic].leaders


def watch_topics(spec: ClusterSpec, topic: str) -> None:
    with contextlib.closing(MetadataPoller(spec)) as lookout:
        assert topic in lookout.topics(time.monotonic() + 15)


def sample_ends(spec: ClusterSpec, topic: str) -> None:
    with contextlib.closing(OffsetSampler(spec)) as sampler:
        assert (topic, 0) in sampler.sample([(topic, 0)]).end


CONVERSATIONS: tuple[Conversation, ...] = (
    list_groups,
    move_group,
    rights,
    access_rules,
    look_at_topics,
    tail,
    read_records,
    fence_ids,
    write_as_flow,
    transact,
    beat,
    find_leftovers,
    ask_as_engine,
    watch_topics,
    sample_ends,
)


BOUND_S = 0.7


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each conversation meets the dead address for the first time, and gives it less time."""
    monkeypatch.setattr(addresses, "ATTEMPT_S", BOUND_S)
    ADDRESS_HISTORY.clear()
    yield
    ADDRESS_HISTORY.clear()


@pytest.mark.parametrize("kind", KINDS.keys() - {"unresolvable"})
@pytest.mark.parametrize("conversation", [list_groups, fence_ids, watch_topics])
def test_a_name_that_leads_to_a_dead_address_and_a_good_one_serves(
    kind: str,
    conversation: Conversation,
    cluster: ClusterSpec,
    topic: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, resolve = topic(), sockets.resolve

    def resolved(host: str, port: int, deadline: float) -> list[sockets.Target]:
        if host != "kafka.example":
            return resolve(host, port, deadline)
        good, bad = cluster.bootstrap_servers, dead
        pairs = [one.rsplit(":", 1) for one in (bad, good)]
        return [target for host, port in pairs for target in resolve(host, int(port), deadline)]

    monkeypatch.setattr(sockets, "resolve", resolved)
    named = dataclasses.replace(cluster, bootstrap_servers="kafka.example:9092")
    with KINDS[kind]() as dead:
        for bound in (BOUND_S + USUAL_S, USUAL_S):
            began = time.monotonic()
            conversation(named, name)
            assert time.monotonic() - began < bound


@pytest.mark.parametrize("kind", KINDS)
def test_a_dead_broker_of_the_metadata_hides_no_groups_of_the_others(
    kind: str, cluster: ClusterSpec, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = _id()
    groups.write_offsets(cluster, group, {(topic(), 0): groups.GroupOffset(0)}).raise_first()
    list_brokers = ClusterRequests.list_brokers
    with KINDS[kind]() as dead:
        host, port = dead.rsplit(":", 1)

        def list_with_dead(self: ClusterRequests) -> list[int]:
            nodes = list_brokers(self)
            self.brokers[99] = (host, int(port))
            return [99, *nodes]

        monkeypatch.setattr(ClusterRequests, "list_brokers", list_with_dead)
        listed = groups.list_reachable_groups(cluster)
        assert group in listed.groups
        assert not listed.is_complete
        assert dead.partition(":")[0] in listed.reason
        with pytest.raises(KafkaUnavailable):
            groups.list_groups(cluster)


@pytest.fixture(params=KINDS)
def half_dead(request: pytest.FixtureRequest, cluster: ClusterSpec) -> Iterator[ClusterSpec]:
    with KINDS[request.param]() as dead:
        servers = f"{dead},{cluster.bootstrap_servers}"
        yield dataclasses.replace(cluster, bootstrap_servers=servers)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda act: act.__name__)
def test_a_dead_first_address_costs_one_bounded_attempt(
    conversation: Conversation,
    half_dead: ClusterSpec,
    cluster: ClusterSpec,
    topic: Callable[..., str],
) -> None:
    name = topic()
    began = time.monotonic()
    conversation(cluster, name)
    usual = time.monotonic() - began
    ADDRESS_HISTORY.clear()
    for bound in (BOUND_S + USUAL_S, USUAL_S):
        began = time.monotonic()
        conversation(half_dead, name)
        assert time.monotonic() - began < usual + bound


def test_an_address_that_the_deployment_forbids_is_a_warning_beside_one_that_serves(
    cluster: ClusterSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(egress.VARIABLE, "127.0.0.0/8")
    servers = f"192.0.2.1:9092,{cluster.bootstrap_servers}"
    spec = dataclasses.replace(cluster, bootstrap_servers=servers)
    groups.list_groups(spec)
    with Admin(spec) as admin:
        admin.topic_names()
    report = probe(spec, now=0)
    assert report.reachable
    (warning,) = report.warnings
    assert "192.0.2.1:9092" in warning
    assert egress.VARIABLE in warning


def test_an_address_of_another_cluster_is_a_warning(cluster: ClusterSpec, backup: str) -> None:
    servers = f"{cluster.bootstrap_servers},{backup}"
    report = probe(dataclasses.replace(cluster, bootstrap_servers=servers), now=0)
    assert report.reachable
    (warning,) = report.warnings
    assert f"{backup} leads to cluster" in warning
    assert "Remove the wrong address" in warning


class PartlyReachableClient:
    """An admin client whose cluster lists first a broker that is not there."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe_cluster(self, **how: Any) -> Future[Any]:
        nodes = self._client.describe_cluster(**how).result(10).nodes
        answer: Future[Any] = Future()
        answer.set_result(SimpleNamespace(nodes=[SimpleNamespace(id=99), *nodes]))
        return answer


def test_a_dead_broker_of_the_list_does_not_hold_up_the_fence(cluster: ClusterSpec) -> None:
    with ClientFence(cluster) as fence:
        fence.client = PartlyReachableClient(fence.client)  # type: ignore[assignment]
        began = time.monotonic()
        assert fence.allows_everyone(deadline_s=10) is False
        assert time.monotonic() - began < USUAL_S
