"""Moves on whole clusters: their addresses, and brokers that are killed."""

from __future__ import annotations

from tests.judge.cluster import now_ms
from tests.judge.moves import Move, writable
from tests.judge.world import World


class DeadAddress(Move):
    """The first address of a cluster is refused, unresolvable or silent."""

    def possible(self, world: World) -> bool:
        return world.readdressed_at is None

    def do(self, world: World) -> str:
        kind = world.chance.choice(("refused", "unresolvable", "silent"))
        alias, side = world.chance.choice(
            ((world.source_alias, world.source), (world.target_alias, world.target))
        )
        servers = f"{world.dead_address(kind)},{side.bootstrap}"
        world.rest(f"clusters/{alias}/", {"bootstrap_servers": servers}, method="PATCH")
        world.readdressed_at = now_ms()
        return f"the first address of {alias} is {kind}"


class KillSource(Move):
    """kill -9 of the source, under load."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and world.transaction is None and bool(writable(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(writable(world))
        world.stop_readers()
        world.produce(topic, 300)
        world.kill_source()
        return f"300 records to {topic}, then kill -9 of the source"


class ReviveSource(Move):
    """The source's broker starts again with all that it had."""

    weight = 12

    def possible(self, world: World) -> bool:
        return world.source_is_dead

    def do(self, world: World) -> str:
        world.revive_source()
        return "the source is back"
