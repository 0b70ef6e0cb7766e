"""Brokers far away from the engine, by the relay of the benchmark; lines that stall and break."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from controlplane.bench.distance.relay import NetworkProfile, Relay
from controlplane.demo.processes.ports import free_port
from mirrors.kafka.protocol import sockets
from mirrors.kafka.protocol.sockets import Target

RTT_MS = 30
LINE = NetworkProfile(far="both", rtt_ms=RTT_MS, jitter_ms=2)


@contextlib.contextmanager
def far_away(
    program: Path, addresses: Sequence[str], patch: pytest.MonkeyPatch, line: NetworkProfile = LINE
) -> Iterator[tuple[Relay, ...]]:
    """Relays between the engine and these brokers; the tests' own connections go past them."""
    resolve = sockets.resolve
    with contextlib.ExitStack() as stack:
        found = {
            port: stack.enter_context(Relay(program, port=free_port(), broker_port=port, line=line))
            for port in {int(address.rpartition(":")[2]): None for address in addresses}
        }

        def through(host: str, port: int, deadline: float) -> list[Target]:
            is_far = _is_engine() and port in found
            return resolve(host, found[port].port if is_far else port, deadline)

        patch.setattr(sockets, "resolve", through)
        yield tuple(found.values())


def _is_engine() -> bool:
    name = threading.current_thread().name
    return name == "engine" or name.endswith("(_epoch)")


class ConnectionFaults:
    """Cuts and stalls of the lines at random, from a thread of its own."""

    def __init__(self, relays: Sequence[Relay], seed: int, *, every_s: float) -> None:
        self._relays, self._chance, self._every_s = relays, random.Random(seed), every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.cuts = 0

    def __enter__(self) -> ConnectionFaults:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    def _run(self) -> None:
        chance = self._chance
        while not self._over.wait(self._every_s * chance.uniform(0.5, 1.5)):
            relay = chance.choice(self._relays)
            if chance.random() < 0.3:
                relay.stall(chance.uniform(0.2, 1.0))
            else:
                relay.cut()
                self.cuts += 1
