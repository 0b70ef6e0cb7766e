"""A frozen or overloaded driver: its tasks continue to replicate and report later."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from spark_runner.ipc.messages import Figures, PartitionFigure
from spark_runner.ipc.task_channel import Channel
from spark_runner.ipc.tls import Identity
from tests.spark.lab import wait_for
from tests.spark.test_control_connection import work

# A loop that copies comes by more often than that.
SOON_S = 0.2
# More than the buffers on the way hold.
REPORTS = 200
ROWS = tuple(PartitionFigure(topic="t" * 100, partition=n, position=n) for n in range(200))


class Driver:
    """Meets one task, and hears what it says only once it is thawed."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._identity = Identity()
        self.certificate = self._identity.certificate
        self.heard: list[int] = []
        self._thawed = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        accepted, _ = self._listener.accept()
        connection = self._identity._context.wrap_socket(accepted, server_side=True)
        connection.sendall(b'{"nonce": "n"}\n')
        lines = connection.makefile("rb")
        assert "hello" in json.loads(lines.readline())
        self._thawed.wait()
        with connection, lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # its writer ended meanwhile
                message = json.loads(line)
                if "figures" in message:
                    self.heard.append(Figures.from_json(message["figures"]).as_of)
                elif "ready" in message:
                    connection.sendall(b'{"turn": true}\n')

    def thaw(self) -> None:
        self._thawed.set()

    def close(self) -> None:
        self.thaw()
        self._listener.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


def tell(channel: Channel, number: int) -> bool:
    """As a loop does that copies; whether figures were due, and how long it took is judged."""
    began = time.monotonic()
    is_due = channel.due()
    if is_due:
        channel.report(
            Figures(as_of=number, pid=1, state="copying", records=number, partitions=ROWS)
        )
    assert time.monotonic() - began < SOON_S, f"figures {number} kept the loop"
    return is_due


@pytest.fixture(autouse=True)
def as_often_as_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_runner.ipc.task_channel._REPORT_S", 0.0)


def test_a_task_copies_on_though_its_driver_takes_no_figures(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_runner.ipc.task_channel.SILENCE_S", 3.0)
    channel = Channel(work(driver.address, "token", driver.certificate))
    told = [number for number in range(1, REPORTS + 1) if tell(channel, number)]
    assert channel.order() is None
    assert len(told) < REPORTS, "nothing was tested"
    # Figures are held back while others wait, and reported with the next ones.
    driver.thaw()
    wait_for(lambda: tell(channel, REPORTS + 1), seconds=5, what="the driver to take the rest")
    wait_for(lambda: driver.heard == [*told, REPORTS + 1], seconds=5, what="all of it, in order")
    channel.close()


def test_who_is_ready_says_so_behind_what_the_driver_has_not_taken_yet(driver: Driver) -> None:
    channel = Channel(work(driver.address, "token", driver.certificate))
    told = [number for number in range(1, REPORTS + 1) if tell(channel, number)]
    assert len(told) < REPORTS, "nothing was tested"
    threading.Timer(0.5, driver.thaw).start()
    assert channel.wait_for_turn(10)
    assert driver.heard == told
    channel.close()


def test_a_frozen_driver_is_taken_for_lost_as_soon_as_it_was_silent_for_so_long(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_runner.ipc.task_channel.SILENCE_S", 1.5)
    channel = Channel(work(driver.address, "token", driver.certificate))
    began, number = time.monotonic(), 0
    while channel.order() is None:
        number += 1
        tell(channel, number)
        time.sleep(0.01)
        assert time.monotonic() - began < 1.5 + 5 * SOON_S
    assert channel.order() == "lost_control"
    channel.close()
