"""The runner's parts without Spark or Kafka: packing, slots, control connection, agenda, board."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.jobs import JobSpec
from mirrors.domain.specs import ClusterSpec
from spark_runner.agenda import Agenda
from spark_runner.control import Channel, slice_key
from spark_runner.control_server import ControlServer
from spark_runner.slices import pack
from spark_runner.slots import Slots
from spark_runner.without_effect import warnings_of
from spark_runner.work import Figures, PartitionFigure, PartitionWork, SliceResult, SliceWork
from tests.spark.lab import wait_for

PLACES = st.tuples(st.sampled_from("abc"), st.integers(0, 30))
WEIGHTS = st.dictionaries(PLACES, st.integers(0, 10**12), max_size=40)


@given(WEIGHTS, st.integers(1, 8))
def test_every_partition_has_one_slice_and_no_slice_is_empty(
    weights: dict[tuple[str, int], int], most: int
) -> None:
    packed = pack(weights, most)
    assert packed.keys() == weights.keys()
    assert set(packed.values()) == set(range(min(most, len(weights))))


@given(WEIGHTS, WEIGHTS, st.integers(1, 8))
def test_packing_again_moves_nothing(
    before: dict[tuple[str, int], int], new: dict[tuple[str, int], int], most: int
) -> None:
    packed = pack(before, most)
    later = pack({**before, **new}, most, packed)
    assert {place: later[place] for place in before} == packed
    assert max(later.values(), default=0) < most


@given(WEIGHTS, WEIGHTS, st.integers(2, 8))
def test_with_fewer_slots_no_partition_moves_to_a_slice_that_does_not_fence_its_own(
    before: dict[tuple[str, int], int], new: dict[tuple[str, int], int], most: int
) -> None:
    packed = pack(before, most)
    later = pack({**before, **new}, most - 1, packed)
    assert {place: later[place] for place in before} == packed
    assert all(later[place] < most - 1 for place in new.keys() - before.keys())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(1, 8))
def test_no_slice_is_heavier_than_an_even_share_and_the_heaviest_partition(
    loads: list[int], most: int
) -> None:
    weights = {("t", number): load for number, load in enumerate(loads)}
    sums = [0] * most
    for place, index in pack(weights, most).items():
        sums[index] += weights[place] + 1
    assert max(sums) <= sum(w + 1 for w in loads) / min(most, len(loads)) + max(loads) + 1


def test_slots_are_held_shared_out_and_given_back() -> None:
    slots = Slots(lambda: 4)
    assert slots.hold(1, 3)
    assert not slots.hold(2, 2)
    assert (slots.free_for(1), slots.free_for(2), slots.used) == (4, 1, 3)
    assert slots.hold(1, 2)
    assert slots.hold(2, 2)
    slots.release(1)
    assert slots.free_for(2) == 4


def test_a_flow_keeps_its_slots_when_the_runner_has_lost_some() -> None:
    totals = [4]
    slots = Slots(lambda: totals[0])
    assert slots.hold(1, 3)
    totals[0] = 2
    assert slots.hold(1, 3)
    assert not slots.hold(1, 4)
    assert not slots.hold(2, 1)


def work(address: str, token: str) -> SliceWork:
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
    )


def test_work_and_results_come_back_as_they_were_sent_and_a_token_is_never_printed() -> None:
    sent = work("h:1", "secret-token")
    assert SliceWork.from_json(sent.to_json()) == sent
    assert "secret-token" not in repr(sent)
    row = PartitionFigure(topic="t", partition=0, position=9, timestamp=1)
    result = SliceResult(ended_because="stop", reason="", partitions=(row,))
    assert SliceResult.from_json(result.to_json()) == result


@pytest.fixture
def server() -> ControlServer:
    return ControlServer("127.0.0.1", "127.0.0.1")


def test_orders_and_turn_reach_the_task_also_those_given_before_it_came(
    server: ControlServer,
) -> None:
    heard: list[Figures] = []
    line = server.open_line(slice_key(work("", "")), heard.append)
    line.give_turn()
    channel = Channel(work(server.address, line.token))
    assert channel.wait_for_turn(5)
    assert channel.order() is None
    channel.report(Figures(as_of=1, pid=2, state="copying"))
    wait_for(lambda: heard, seconds=5)
    line.order("handover")
    channel.wait_for_order(5)
    assert channel.order() == "handover"
    # Spark's second try of the same task hears it all again.
    again = Channel(work(server.address, line.token))
    again.wait_for_order(5)
    assert again.order() == "handover"
    channel.close()
    again.close()
    server.close()


def test_a_task_whose_driver_is_gone_is_told_to_stop(server: ControlServer) -> None:
    line = server.open_line(slice_key(work("", "")), lambda _: None)
    stream = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{stream.getsockname()[1]}"

    def half_a_driver() -> None:
        connection, _ = stream.accept()
        connection.sendall(b'{"nonce": "n"}\n')
        connection.recv(4096)
        connection.close()

    threading.Thread(target=half_a_driver, daemon=True).start()
    channel = Channel(work(address, line.token))
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
        b"x" * 100_000,
    ],
)
def test_a_stranger_is_thrown_out_and_the_task_is_served(
    server: ControlServer, hello: bytes
) -> None:
    heard: list[Figures] = []
    line = server.open_line(slice_key(work("", "")), heard.append)
    host, _, port = server.address.rpartition(":")
    with socket.create_connection((host, int(port)), 5) as stranger:
        stranger.settimeout(5)
        assert "nonce" in json.loads(stranger.makefile("rb").readline())
        stranger.sendall(hello)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
    channel = Channel(work(server.address, line.token))
    channel.report(Figures(as_of=1, pid=2, state="copying"))
    wait_for(lambda: heard, seconds=5)
    channel.close()
    server.close()


def test_a_task_with_a_wrong_token_gets_no_turn(server: ControlServer) -> None:
    line = server.open_line(slice_key(work("", "")), lambda _: None)
    line.give_turn()
    channel = Channel(dataclasses.replace(work(server.address, "wrong"), control_token="wrong"))
    began = time.monotonic()
    assert not channel.wait_for_turn(5)
    assert time.monotonic() - began < 4
    assert channel.order() == "lost_control"
    server.close()


def test_what_fails_is_tried_again_ever_more_seldom_and_a_refused_login_soonest_not() -> None:
    agenda = Agenda(5)
    assert agenda.is_due("open", 0)
    waits = []
    now = 100.0
    for _ in range(8):
        agenda.failed("open", KafkaUnavailable("down"), now)
        wait = next(s for s in range(100) if agenda.is_due("open", now + s))
        waits.append(wait)
        now += wait
    assert waits == [1, 2, 4, 8, 8, 8, 8, 8]
    agenda.done("open", now, moving=False)
    agenda.failed("open", KafkaRefused("wrong password"), now)
    assert not agenda.is_due("open", now + 4.9)


def test_topics_are_looked_for_twice_an_interval_and_never_when_switched_off() -> None:
    agenda = Agenda(5)
    agenda.done("open", 10, moving=False)
    assert not agenda.is_due("look", 12.4)
    assert agenda.is_due("look", 12.5)
    agenda.begun("look")
    assert not agenda.is_due("look", 1e9)
    off = Agenda(None)
    off.done("open", 10, moving=False)
    assert not off.is_due("look", 1e9)


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
    assert warnings_of(job, "raw") == ()
    [sentence] = warnings_of(job, "record")
    assert "topics.priority.low have no effect in the record lane" in sentence
    assert warnings_of(dataclasses.replace(job, properties={}), "record") == ()
