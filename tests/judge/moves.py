"""The moves of a round: what people, programs and accidents do to clusters, topics and flows.

A move says whether it is possible now, does it, and answers with what it did, for the log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from confluent_kafka.admin import AclOperation, ResourcePatternType

from tests.judge.cluster import now_ms
from tests.judge.world import PARTITIONS, World

_HOW = ("plain", "plain", "commit", "abort")


class Move(ABC):
    """One thing that happens. `weight` is how often it is chosen beside the others.

    `needs_target`: it acts on the target, or on what the target holds.
    """

    weight = 2
    needs_target = True

    def possible(self, world: World) -> bool:
        return not world.source_is_dead and not (self.needs_target and world.target_is_dead)

    @abstractmethod
    def do(self, world: World) -> str: ...


def writable(world: World) -> list[str]:
    """Topics that the judge itself may write."""
    living = [generation.topic for generation in world.ledger.living()]
    return [topic for topic in living if topic not in world.denied]


def quiet(world: World) -> list[str]:
    """Topics that nothing is wrong with."""
    held = {row[0] for row in world.transaction.records} if world.transaction else set()
    held |= world.reading
    return [topic for topic in writable(world) if topic not in world.trouble and topic not in held]


def copied(world: World) -> list[str]:
    """Those of them that have a remote topic."""
    there = world.target.topics()
    return [topic for topic in quiet(world) if world.ledger.remote(topic) in there]


def filled(world: World) -> list[tuple[str, int]]:
    """Their partitions that ever held a record."""
    return [
        (topic, number)
        for topic in quiet(world)
        for number, records in world.living(topic).partitions.items()
        if records
    ]


class Produce(Move):
    """Records into one to three topics: plain, in transactions, and in aborted ones."""

    weight = 8
    needs_target = False

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(writable(world))

    def do(self, world: World) -> str:
        topics = writable(world)
        done = []
        for topic in world.chance.sample(topics, min(len(topics), world.chance.randint(1, 3))):
            count, how = world.chance.randint(5, 200), world.chance.choice(_HOW)
            world.produce(topic, count, how=how)
            done.append(f"{count} ({how}) to {topic[:40]}")
        return "produce " + ", ".join(done)


class NewTopic(Move):
    """A move that creates a topic, which the judge must be able to see."""

    def possible(self, world: World) -> bool:
        return super().possible(world) and not world.sees_nothing


class CreateTopic(NewTopic):
    """A new topic, with records or without."""

    weight = 3
    needs_target = False

    def do(self, world: World) -> str:
        topic, count = world.new_name(), world.chance.choice(PARTITIONS)
        world.create(topic, count)
        records = world.chance.choice((0, 40, 150))
        if records:
            world.produce(topic, records)
        return f"create {topic} with {count} partitions and {records} records"


class GrowTopic(Move):
    """More partitions."""

    needs_target = False

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(quiet(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(quiet(world))
        count = len(world.living(topic).partitions) + world.chance.randint(1, 2)
        world.grow(topic, count)
        world.produce(topic, 30)
        return f"grow {topic} to {count} partitions"


class DeleteTopic(Move):
    """It is deleted on the source and stays so."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and len(quiet(world)) > 2

    def do(self, world: World) -> str:
        topic = world.chance.choice(quiet(world))
        world.source.delete(topic)
        world.ledger.delete(topic, now_ms())
        return f"delete {topic}"


class RecreateTopic(Move):
    """Deleted and created again, with other counts and sometimes other partitions."""

    weight = 3

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(quiet(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(quiet(world))
        before = world.living(topic)
        held = sum(1 for _ in before.records())
        count = world.chance.choice((len(before.partitions), *PARTITIONS))
        records = world.chance.choice((held, held // 2, held + 100, 0))
        world.source.delete(topic)
        world.ledger.delete(topic, now_ms())
        _create_again(world, topic, count)
        if records:
            world.produce(topic, records)
        if world.desired == "running" and held:
            world.trouble[topic] = now_ms()
        return f"recreate {topic}: {held} records then, {records} now in {count} partitions"


def _create_again(world: World, topic: str, count: int) -> None:
    """A broker deletes a topic a moment after it said so."""
    for attempt in range(50):
        try:
            world.create(topic, count)
            return
        except Exception as error:
            if "exists" not in str(error).lower() or attempt == 49:
                raise
            world.wait_a_moment()


class RefuseName(NewTopic):
    """The target holds a topic whose name differs in a dot and an underscore alone."""

    def do(self, world: World) -> str:
        topic = f"{world.new_name('d')}.x"
        in_the_way = world.ledger.remote(topic).replace(".x", "_x")
        world.target.create(in_the_way, 1)
        world.create(topic, 2)
        world.produce(topic, 60)
        world.trouble[topic] = now_ms()
        return f"create {topic}, which collides with {in_the_way} on the target"


class RefuseLength(NewTopic):
    """A name of 249 characters, the longest that Kafka takes, has no room for a prefix."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and not world.is_same_name

    def do(self, world: World) -> str:
        topic = world.new_name("l").ljust(249, "x")
        world.create(topic, 1)
        world.produce(topic, 35)
        world.trouble[topic] = now_ms()
        return "create a topic with a name of 249 characters"


class RefuseReplicas(NewTopic):
    """The flow asks for more replicas than the target has brokers."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and world.desired == "running"

    def do(self, world: World) -> str:
        world.set_properties(**{"replication.factor": "3"})
        topic = world.new_name("r")
        world.create(topic, 2)
        world.produce(topic, 45)
        world.trouble[topic] = now_ms()
        return f"replication.factor=3, and create {topic}"


class RefuseRecord(Move):
    """One record is larger than the remote topic takes."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(copied(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(copied(world))
        world.target.configure(world.ledger.remote(topic), max_message_bytes="20000")
        world.small.add(topic)
        world.produce(topic, 1, padding=100_000)
        world.produce(topic, 20)
        world.trouble[topic] = now_ms()
        return f"a record of 100 KB in {topic}, which takes 20 KB on the target"


class DenyOnSource(Move):
    """The source denies DESCRIBE or READ of a topic that the flow knows."""

    def possible(self, world: World) -> bool:
        return super().possible(world) and len(copied(world)) > 1

    def do(self, world: World) -> str:
        topic = world.chance.choice(copied(world))
        what = world.chance.choice((AclOperation.DESCRIBE, AclOperation.READ))
        world.produce(topic, 20)
        world.source.deny(topic, what)
        world.denied[topic] = world.source
        world.trouble[topic] = now_ms()
        world.hidden.add(topic)
        return f"deny {what.name} of {topic} on the source"


class HideEverything(Move):
    """The source denies DESCRIBE of every topic that the flow selects, by a prefix."""

    weight = 1

    def possible(self, world: World) -> bool:
        is_free = not world.denied and not world.reading and world.transaction is None
        return super().possible(world) and is_free and bool(writable(world))

    def do(self, world: World) -> str:
        topics = writable(world)
        world.produce(world.chance.choice(topics), 30)
        world.source.deny(world.prefix, AclOperation.DESCRIBE, ResourcePatternType.PREFIXED)
        for topic in topics:
            world.denied[topic] = world.source
            world.trouble[topic] = now_ms()
            world.hidden.add(topic)
        world.sees_nothing = True
        return f"deny DESCRIBE of all topics {world.prefix}* on the source"


class DenyOnTarget(Move):
    """The target denies WRITE of a remote topic."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(quiet(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(quiet(world))
        remote = world.ledger.remote(topic)
        world.target.deny(remote, AclOperation.WRITE)
        world.denied[remote] = world.target
        world.produce(topic, 25)
        world.trouble[topic] = now_ms()
        return f"deny WRITE of {remote} on the target"


class Truncate(Move):
    """Records are deleted on the source, copied or not."""

    needs_target = False

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(filled(world))

    def do(self, world: World) -> str:
        topic, number = world.chance.choice(filled(world))
        records = world.living(topic).partitions[number]
        start = world.chance.choice(records).offset + 1
        world.source.delete_records(topic, number, start)
        world.ledger.truncate(topic, number, start, now_ms())
        if world.desired != "running":
            world.trouble[topic] = now_ms()
        return f"delete the records of {topic}-{number} below {start}"


class WriteForeign(Move):
    """Somebody else writes into a remote topic."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(copied(world))

    def do(self, world: World) -> str:
        remote = world.ledger.remote(world.chance.choice(copied(world)))
        count = world.chance.randint(1, 30)
        world.foreign_writer().write([((remote, 0), f"foreign-{n}") for n in range(count)])
        return f"{count} foreign records in {remote}-0"


class DeleteRemote(Move):
    """Somebody deletes a remote topic."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(copied(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(copied(world))
        world.target.delete(world.ledger.remote(topic))
        world.ledger.lose_copies(now_ms())
        world.look()
        if world.desired == "running" and any(world.living(topic).records()):
            world.trouble[topic] = now_ms()
        return f"delete {world.ledger.remote(topic)} on the target"


class Expire(Move):
    """Retention deletes what a topic holds."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(filled(world))

    def do(self, world: World) -> str:
        topic, _ = world.chance.choice(filled(world))
        partitions = [(topic, number) for number in world.living(topic).partitions]
        before = world.source.begins(partitions)
        world.source.configure(topic, retention_ms="1", segment_ms="60000")
        for _ in range(40):
            world.wait_a_moment()
            if world.source.begins(partitions) != before:
                break
        world.wait_a_moment()
        world.source.configure(topic, retention_ms="604800000")
        world.wait_a_moment()
        begins = world.source.begins(partitions)
        for (_, number), start in begins.items():
            world.ledger.truncate(topic, number, start, now_ms())
        return f"retention empties {topic}: {sorted(begins.values())}"


class Heal(Move):
    """What was denied is allowed again, and what was too small is large enough."""

    weight = 2

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(world.denied)

    def do(self, world: World) -> str:
        return f"allow everything again: {world.heal()}"
