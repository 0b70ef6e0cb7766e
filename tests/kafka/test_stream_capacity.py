"""The connection test at a distance: round trips, what one connection carries, what to raise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import NetworkProfile, Relay, build
from controlplane.demo.processes.ports import free_port
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.connection_test.probe import probe
from mirrors.kafka.connection_test.stream_capacity import (
    Distance,
    Ends,
    advice,
    bytes_per_second,
    own_ends,
    read_window,
    write_window,
)
from mirrors.kafka.protocol import sockets
from mirrors.kafka.protocol.sockets import Target

LINUX = Ends(kernel_receive=6_291_456, kernel_send=4_194_304)
KAFKA = Ends(
    kernel_receive=64_000_000,
    kernel_send=64_000_000,
    broker_receive=102_400,
    broker_send=102_400,
)


def rates(ends: Ends, rtt_ms: float) -> tuple[int | None, int | None]:
    return (
        bytes_per_second(read_window(ends), rtt_ms),
        bytes_per_second(write_window(ends), rtt_ms),
    )


def test_the_smallest_buffer_goes_once_in_each_round_trip() -> None:
    assert rates(LINUX, 100) == (31_457_280, 41_943_040)
    assert rates(KAFKA, 100) == (1_024_000, 1_024_000)
    assert rates(Ends(), 100) == (None, None)
    assert rates(LINUX, 0) == (None, None)


def test_a_buffer_that_the_cluster_s_properties_set_replaces_the_kernel_s() -> None:
    ends = Ends(kernel_receive=6_291_456, client_receive=1_000_000)
    window = read_window(ends)
    assert window is not None
    assert (window.bytes, window.setting) == (1_000_000, "receive.buffer.bytes")


def test_advice_names_the_buffer_and_the_value_to_set() -> None:
    far = [Distance(broker=one, rtt_ms=100, ends=KAFKA) for one in (1, 2)]
    read, write = advice("east", far)
    assert read == (
        "One connection from east carries at most about 1.0 MB/s at RTT 100 ms: "
        "socket.send.buffer.bytes of brokers 1, 2 is 102,400. Set it to -1, so that the kernel "
        "sizes the buffer, or to 12,500,000 for 125 MB/s, and restart the brokers."
    )
    assert "socket.receive.buffer.bytes" in write
    read, write = advice("east", [Distance(broker=1, rtt_ms=100, ends=LINUX)])
    assert "sysctl -w net.ipv4.tcp_rmem='4096 131072 25000000'" in read
    assert "sysctl -w net.ipv4.tcp_wmem='4096 16384 12500000'" in write
    own = Ends(client_receive=50_000, client_send=50_000)
    for sentence in advice("east", [Distance(broker=1, rtt_ms=50, ends=own)]):
        assert "Remove it, or raise it to 6,250,000" in sentence


@pytest.mark.parametrize(
    ("rtt_ms", "ends"), [(19, KAFKA), (100, Ends()), (20, Ends(kernel_send=4_000_000))]
)
def test_near_brokers_and_large_or_unknown_buffers_need_no_advice(
    rtt_ms: float, ends: Ends
) -> None:
    assert advice("east", [Distance(broker=1, rtt_ms=rtt_ms, ends=ends)]) == []


def test_this_machine_s_limits_come_from_its_kernel(tmp_path: Path) -> None:
    (tmp_path / "tcp_rmem").write_text("4096\t131072\t6291456\n")
    found = own_ends({"send.buffer.bytes": "-1", "receive.buffer.bytes": "65536"}, tmp_path)
    assert found == Ends(kernel_receive=6_291_456, client_receive=65_536)


@pytest.fixture
def relay(tmp_path: Path, cluster: ClusterSpec, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """All connections of this process go through it, 100 ms."""
    resolve = sockets.resolve
    line = NetworkProfile(far="both", rtt_ms=100)
    broker = int(cluster.bootstrap_servers.rpartition(":")[2])
    with Relay(build(tmp_path), port=free_port(), broker_port=broker, line=line) as found:

        def through(host: str, port: int, deadline: float) -> list[Target]:
            return resolve(host, found.port if port == broker else port, deadline)

        monkeypatch.setattr(sockets, "resolve", through)
        yield found


def test_a_test_at_a_distance_reports_round_trip_capacity_and_the_broker_s_buffers(
    cluster: ClusterSpec, relay: Relay
) -> None:
    report = probe(cluster, now=0, measures_distance=True)
    assert report.reachable, report
    (broker,) = report.brokers
    assert broker.rtt_ms is not None
    assert broker.rtt_median_ms is not None
    assert 100 <= broker.rtt_ms <= broker.rtt_median_ms < 250
    # Kafka's default.
    window = 102_400
    assert broker.read_bytes_per_second == round(window / broker.rtt_ms * 1000)
    assert broker.write_bytes_per_second == broker.read_bytes_per_second
    for name, text in zip(("send", "receive"), report.advice, strict=True):
        assert f"socket.{name}.buffer.bytes of broker" in text
    row = report.to_dict()["brokers"][0]
    assert row["distance"].startswith(f"RTT {broker.rtt_ms:.1f} ms (median")


def test_a_near_test_has_no_advice_and_a_periodic_check_measures_nothing(
    cluster: ClusterSpec,
) -> None:
    report = probe(cluster, now=0, measures_distance=True)
    assert report.brokers[0].rtt_ms is not None
    assert report.advice == ()
    assert probe(cluster, now=0).brokers[0].rtt_ms is None
