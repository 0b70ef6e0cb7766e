"""A real MirrorMaker 2 replicates first; then the flow takes over from it."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from controlplane.bench.systems.interface import Link, ReplicationTask
from controlplane.bench.systems.mirror_maker import MirrorMaker, Profile
from tests.judge.world import World

COPIED_S = 120.0
TAKEN_S = 90.0
_PROFILE = Profile(label="mm2-judge", tuned=False, heap="384m", tasks=1)


def begin_after_mirror_maker(world: World) -> None:
    """Records and groups that MirrorMaker 2 copied, and the flow that goes on from there."""
    link = Link(
        source_alias=world.source_alias,
        target_alias=world.target_alias,
        topics=tuple(world.ledger.topics),
    )
    servers = {"source": world.source.bootstrap, "target": world.target.bootstrap}
    order = ReplicationTask(**servers, links=(link,), codec="none")
    with tempfile.TemporaryDirectory(prefix="judge-mm2-") as directory:
        mirror = MirrorMaker(_PROFILE, Path(directory), world.stage.process_environment)
        mirror.start(order)
        try:
            _wait_until_copied(world, mirror)
        finally:
            mirror.stop()
    world.begin(start=False)
    _take_over(world)


def _wait_until_copied(world: World, mirror: MirrorMaker) -> None:
    until = time.monotonic() + COPIED_S
    while True:
        mirror.check()
        world.look()
        owed = world.ledger.owed(world.later()).least
        if owed == 0:
            return
        assert time.monotonic() < until, f"MirrorMaker 2 left {owed} records behind"
        time.sleep(1)


def _take_over(world: World) -> None:
    path = f"{world.path}takeover/"
    world.rest(path, {"seconds": 3, "start": True})
    until = time.monotonic() + TAKEN_S
    while not (answer := world.rest(path))["started"]:
        assert time.monotonic() < until, f"the takeover does not start the flow: {answer}"
        if answer["ended_at"] is not None:
            world.rest(path, {"seconds": 3, "start": True})
        time.sleep(1)
    world.steps.append(f"taken over from MirrorMaker 2: {answer['reasons']}")
