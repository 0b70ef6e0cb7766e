"""A dead first address in each cluster: copying, simulation and a real failover go through."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from mirrors.kafka.protocol import addresses
from mirrors.kafka.protocol.addresses import ADDRESS_HISTORY
from mirrors.services.groups.mm2_checkpoints import emit_checkpoints
from mirrors.services.groups.survey import discover_groups
from mirrors.services.groups.target_offsets import move_groups
from tests.dead_addresses import KINDS
from tests.groups.world import World
from tests.mirrors.switchover import begin, copied, finish, group_of, hooked_world, simulated
from tests.monitoring.conftest import Receiver, receiver  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db

BOUND_S = 0.7
# What conversations take on a busy machine, the waits of the run's steps included.
BUSY_S = 25.0


@pytest.fixture(autouse=True)
def no_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is known of the addresses, and one attempt costs less than usual."""
    monkeypatch.setattr(addresses, "ATTEMPT_S", BOUND_S)
    ADDRESS_HISTORY.clear()
    yield
    ADDRESS_HISTORY.clear()


@pytest.fixture(params=KINDS)
def world(
    request: pytest.FixtureRequest,
    primary: str,
    backup: str,
    receiver: Receiver,  # noqa: F811
) -> Iterator[World]:
    dead = KINDS[request.param]
    with dead() as one, dead() as two:
        servers = f"{one},{primary}", f"{two},{backup}"
        with contextlib.contextmanager(hooked_world)(*servers, receiver.url) as world:
            yield world


def test_a_failover_goes_through(world: World) -> None:
    topic, group = copied(world), group_of(world)
    world.set(sync_group_offsets_enabled="true")
    for act in (discover_groups, emit_checkpoints, move_groups):
        world.do(act)
    stands = world.stands(group, topic)
    assert stands is not None
    ADDRESS_HISTORY.clear()
    began = time.monotonic()
    simulation = simulated(world)
    assert simulation.verification == "verified", simulation.verification_reason
    run = finish(world, topic, begin(world, "failover", simulation=simulation.pk))
    assert run.state == "succeeded", run.reason
    assert time.monotonic() - began < 2 * BOUND_S + BUSY_S
