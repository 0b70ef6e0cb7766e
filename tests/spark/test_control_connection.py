"""Parts of the runner without Spark or Kafka: control connection, agenda."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import ssl
import threading
import time

import pytest

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.flows.lanes import LaneFigure
from mirrors.domain.runners.job_files import JobSpec
from mirrors.domain.specs import ClusterSpec
from spark_runner.flow.operation_schedule import OperationSchedule
from spark_runner.flow.slice_supervisor import lane_warnings
from spark_runner.ipc.driver_server import ControlServer
from spark_runner.ipc.messages import (
    Figures,
    PartitionFigure,
    PartitionWork,
    SliceResult,
    SliceWork,
)
from spark_runner.ipc.task_channel import Channel, slice_key
from spark_runner.ipc.tls import Identity
from tests.spark.lab import wait_for


def work(address: str, token: str, certificate: str = "") -> SliceWork:
    return SliceWork(
        job=1,
        flow=2,
        generation=1,
        name="a->b",
        index=0,
        count=1,
        epoch=3,
        deadline=0,
        lane="record",
        source=ClusterSpec(alias="a", bootstrap_servers="x:1", sasl_password="env:NAME"),
        target=ClusterSpec(alias="b", bootstrap_servers="y:1", properties={"k": "v"}),
        properties={"topics": "t"},
        source_cluster_id="s",
        target_cluster_id="t",
        positions_topic="p",
        transactional_id="i",
        partitions=(
            PartitionWork(
                topic="t",
                topic_id="id",
                partition=0,
                remote_topic="a.t",
                remote_topic_id="id2",
                start=4,
                remote_configs={"k": "v"},
            ),
        ),
        control_address=address,
        control_token=token,
        control_certificate=certificate,
    )


def work_of(server: ControlServer, token: str) -> SliceWork:
    return work(server.address, token, server.certificate)


def tls_to(server: ControlServer) -> ssl.SSLSocket:
    """A peer that trusts the server; the certificate is no secret of the task."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=server.certificate)
    host, _, port = server.address.rpartition(":")
    return context.wrap_socket(socket.create_connection((host, int(port)), 5))


def test_work_and_results_come_back_as_they_were_sent_and_a_token_is_never_printed() -> None:
    sent = work("h:1", "secret-token")
    assert SliceWork.from_json(sent.to_json()) == sent
    assert "secret-token" not in repr(sent)
    row = PartitionFigure(topic="t", partition=0, position=9, timestamp=1)
    lane = LaneFigure(lane="repack", why="small", batches=1, records=2, bytes=3)
    result = SliceResult(ended_because="stop", reason="", partitions=(row,), lanes=(lane,))
    assert SliceResult.from_json(result.to_json()) == result


@pytest.fixture
def server() -> ControlServer:
    return ControlServer("127.0.0.1", "127.0.0.1")


def test_orders_and_turn_reach_the_task_also_those_given_before_it_came(
    server: ControlServer,
) -> None:
    heard: list[Figures] = []
    line = server.register(slice_key(work("", "")), heard.append)
    line.send_turn()
    channel = Channel(work_of(server, line.token))
    assert channel.wait_for_turn(5)
    assert channel.order() is None
    channel.report(Figures(as_of=1, pid=2, state="copying"))
    wait_for(lambda: heard, seconds=5)
    line.send_order("handover")
    channel.wait_for_order(5)
    assert channel.order() == "handover"
    # Spark's second try of the same task hears it all again.
    again = Channel(work_of(server, line.token))
    again.wait_for_order(5)
    assert again.order() == "handover"
    # The first one's end is not the second one's.
    channel.close()
    time.sleep(0.2)
    assert line.is_connected
    again.close()
    wait_for(lambda: not line.is_connected, seconds=5)
    server.close()


def test_a_task_whose_driver_is_gone_is_told_to_stop(server: ControlServer) -> None:
    line = server.register(slice_key(work("", "")), lambda _: None)
    stream, identity = socket.create_server(("127.0.0.1", 0)), Identity()
    address = f"127.0.0.1:{stream.getsockname()[1]}"

    def half_a_driver() -> None:
        connection = identity._context.wrap_socket(stream.accept()[0], server_side=True)
        connection.sendall(b'{"nonce": "n"}\n')
        connection.recv(4096)
        connection.close()

    threading.Thread(target=half_a_driver, daemon=True).start()
    channel = Channel(work(address, line.token, identity.certificate))
    channel.wait_for_order(5)
    assert channel.order() == "lost_control"
    server.close()


@pytest.mark.parametrize(
    "hello",
    [
        b'{"hello": "1/2/0/3", "mac": "00"}\n',
        b'{"hello": "9/9/9/9", "mac": "00"}\n',
        b'{"figures": "{}"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        # Deeper than Python's reader of JSON goes: no error of a value, and not to be survived.
        b"[" * 4000 + b"\n",
        b"x" * 100_000,
    ],
)
def test_a_stranger_is_thrown_out_and_the_task_is_served(
    server: ControlServer, hello: bytes
) -> None:
    heard: list[Figures] = []
    line = server.register(slice_key(work("", "")), heard.append)
    with tls_to(server) as stranger:
        stranger.settimeout(5)
        assert "nonce" in json.loads(stranger.makefile("rb").readline())
        # Closed without TLS's own end, perhaps while it sends.
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            stranger.sendall(hello)
            assert stranger.recv(100) == b""
    channel = Channel(work_of(server, line.token))
    channel.report(Figures(as_of=1, pid=2, state="copying"))
    wait_for(lambda: heard, seconds=5)
    channel.close()
    server.close()


def test_a_task_with_a_wrong_token_gets_no_turn(server: ControlServer) -> None:
    line = server.register(slice_key(work("", "")), lambda _: None)
    line.send_turn()
    channel = Channel(work_of(server, "wrong"))
    began = time.monotonic()
    assert not channel.wait_for_turn(5)
    assert time.monotonic() - began < 4
    assert channel.order() == "lost_control"
    server.close()


def relayed(address: str) -> tuple[str, bytearray]:
    """An address between task and driver, and every byte that goes through it."""
    host, _, port = address.rpartition(":")
    listener, seen = socket.create_server(("127.0.0.1", 0)), bytearray()

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                seen.extend(data)
                sink.sendall(data)

    def serve() -> None:
        there, _ = listener.accept()
        back = socket.create_connection((host, int(port)))
        threading.Thread(target=pump, args=(back, there), daemon=True).start()
        pump(there, back)

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}", seen


def test_nobody_between_task_and_driver_reads_them(server: ControlServer) -> None:
    heard: list[Figures] = []
    line = server.register(slice_key(work("", "")), heard.append)
    line.send_turn()
    address, seen = relayed(server.address)
    channel = Channel(work(address, line.token, server.certificate))
    assert channel.wait_for_turn(5)
    channel.report(Figures(as_of=1, pid=2, state="copying"))
    wait_for(lambda: heard, seconds=5)
    assert seen
    for word in (b"nonce", b"hello", b"mac", b"turn", b"figures", slice_key(work("", "")).encode()):
        assert word not in seen
    channel.close()
    server.close()


def test_a_task_says_nothing_to_a_server_with_another_certificate(server: ControlServer) -> None:
    line = server.register(slice_key(work("", "")), lambda _: None)
    for certificate in (Identity().certificate, ""):
        with pytest.raises(ConnectionError, match="no driver of this runner"):
            Channel(work(server.address, line.token, certificate))
    assert not line.is_connected
    # Nor to one that speaks no TLS.
    plain = socket.create_server(("127.0.0.1", 0))

    def greet() -> None:
        connection, _ = plain.accept()
        connection.sendall(b'{"nonce": "n"}\n')

    threading.Thread(target=greet, daemon=True).start()
    address = f"127.0.0.1:{plain.getsockname()[1]}"
    with pytest.raises(ConnectionError, match="no driver of this runner"):
        Channel(work(address, line.token, server.certificate))
    server.close()


def test_a_peer_without_tls_gets_nothing_and_the_task_is_served(server: ControlServer) -> None:
    heard: list[Figures] = []
    line = server.register(slice_key(work("", "")), heard.append)
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), 5) as stranger:
        stranger.sendall(b'{"hello": "1/2/0/3", "mac": "00"}\n')
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
    channel = Channel(work_of(server, line.token))
    channel.report(Figures(as_of=1, pid=2, state="copying"))
    wait_for(lambda: heard, seconds=5)
    channel.close()
    server.close()


def test_what_fails_is_tried_again_ever_more_seldom_and_a_refused_login_soonest_not() -> None:
    agenda = OperationSchedule(5)
    assert agenda.is_due("open", 0)
    waits = []
    now = 100.0
    for _ in range(8):
        agenda.mark_failed("open", KafkaUnavailable("down"), now)
        wait = next(s for s in range(100) if agenda.is_due("open", now + s))
        waits.append(wait)
        now += wait
    assert waits == [1, 2, 4, 8, 8, 8, 8, 8]
    agenda.mark_done("open", now, is_busy=False)
    agenda.mark_failed("open", KafkaRefused("wrong password"), now)
    assert not agenda.is_due("open", now + 4.9)


def test_topics_are_looked_for_twice_an_interval_and_never_when_switched_off() -> None:
    agenda = OperationSchedule(5)
    agenda.mark_done("open", 10, is_busy=False)
    assert not agenda.is_due("look", 12.4)
    assert agenda.is_due("look", 12.5)
    agenda.mark_started("look")
    assert not agenda.is_due("look", 1e9)
    off = OperationSchedule(None)
    off.mark_done("open", 10, is_busy=False)
    assert not off.is_due("look", 1e9)


def test_a_partition_that_stops_weeks_later_is_tried_again_as_soon_as_the_first_one() -> None:
    agenda, now = OperationSchedule(None), 1000.0

    def waits() -> float:
        """From when a fault is seen until it is tried again; then it is gone."""
        nonlocal now
        began = now
        while not agenda.retry_faulted(now, any_faulted=True):
            now += 1
        assert not agenda.retry_faulted(now, any_faulted=False)
        return now - began

    assert [waits() for _ in range(6)] == [15, 30, 60, 120, 300, 300]
    now += 299
    assert not agenda.retry_faulted(now, any_faulted=False)
    assert waits() == 300, "it has not been well for long"
    now += 14 * 86_400
    assert not agenda.retry_faulted(now, any_faulted=False)
    assert waits() == 15


def test_a_lane_that_makes_no_classes_says_so_where_a_flow_names_some() -> None:
    sides = {side: ClusterSpec(alias=side, bootstrap_servers="b:9") for side in ("one", "two")}
    job = JobSpec(
        job=1,
        flow=1,
        name="one->two",
        generation=1,
        desired="running",
        source=sides["one"],
        target=sides["two"],
        properties={"topics.priority.low": "logs.*"},
    )
    assert lane_warnings(job, "raw") == ()
    [sentence] = lane_warnings(job, "record")
    assert "topics.priority.low have no effect in the record lane" in sentence
    assert lane_warnings(dataclasses.replace(job, properties={}), "record") == ()
