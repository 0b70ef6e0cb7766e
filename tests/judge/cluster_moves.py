"""Moves on whole clusters: their addresses, brokers that are killed, and quotas."""

from __future__ import annotations

from tests.judge.cluster import now_ms
from tests.judge.moves import Move, quiet, writable
from tests.judge.world import World

# Bytes a second.
QUOTA = 3_000


class DeadAddress(Move):
    """The first address of a cluster does not serve: see `World.dead_kinds`."""

    def possible(self, world: World) -> bool:
        return world.readdressed_at is None

    def do(self, world: World) -> str:
        kind = world.chance.choice(world.dead_kinds)
        alias, name = world.chance.choice(
            ((world.source_alias, "primary"), (world.target_alias, "backup"))
        )
        servers = f"{world.dead_address(kind, name)},{world.connection(name)['bootstrap_servers']}"
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


class KillTarget(Move):
    """kill -9 of the target, and records that it cannot get."""

    weight = 2

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(quiet(world))

    def do(self, world: World) -> str:
        world.kill_target()
        topic = world.chance.choice(quiet(world))
        world.produce(topic, 80)
        return f"kill -9 of the target, then 80 records to {topic}"


class ReviveTarget(Move):
    """The target's broker starts again with all that it had."""

    weight = 6

    def possible(self, world: World) -> bool:
        return world.target_is_dead

    def do(self, world: World) -> str:
        world.revive_target()
        return "the target is back"


class SetQuota(Move):
    """A quota of a cluster throttles every client but the judge's, and a backlog waits for it."""

    weight = 1

    def possible(self, world: World) -> bool:
        is_free = world.quota is None and world.desired == "running"
        return super().possible(world) and is_free and bool(quiet(world))

    def do(self, world: World) -> str:
        side, key = world.chance.choice(
            ((world.source, "consumer_byte_rate"), (world.target, "producer_byte_rate"))
        )
        world.set_quota(side, key, QUOTA)
        topic = world.chance.choice(quiet(world))
        world.produce(topic, 150, padding=400)
        world.produce(topic, 30)
        where = world.source_alias if side is world.source else world.target_alias
        return f"{key}={QUOTA} on {where}, and 75 KB in {topic}"


class LiftQuota(Move):
    """The quota is removed."""

    weight = 3

    def possible(self, world: World) -> bool:
        return super().possible(world) and world.quota is not None

    def do(self, world: World) -> str:
        world.lift_quota()
        return "no quota any more"
