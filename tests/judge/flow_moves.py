"""Moves on groups and the flow, and the list of all moves."""

from __future__ import annotations

from tests.judge.cluster import now_ms
from tests.judge.cluster_moves import (
    DeadAddress,
    KillSource,
    KillTarget,
    LiftQuota,
    ReviveSource,
    ReviveTarget,
    SetQuota,
)
from tests.judge.moves import (
    CreateTopic,
    DeleteRemote,
    DeleteTopic,
    DenyOnSource,
    DenyOnTarget,
    Expire,
    GrowTopic,
    Heal,
    HideEverything,
    Move,
    Produce,
    RecreateTopic,
    RefuseLength,
    RefuseName,
    RefuseRecord,
    RefuseReplicas,
    Truncate,
    WriteForeign,
    filled,
    quiet,
    writable,
)
from tests.judge.world import World


def open_gaps(world: World) -> list[dict[str, object]]:
    rows = world.rest(f"{world.path}gaps/?page_size=200&state=open")["results"]
    return [row for row in rows if row["closed_at"] is None]


class CommitGroup(Move):
    """A group commits anywhere in some partitions, also in empty ones."""

    weight = 5
    needs_target = False

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(writable(world))

    def do(self, world: World) -> str:
        group = f"g{world.seed}-{world.chance.randint(1, 4)}"
        topics = writable(world)
        offsets = {}
        for topic in world.chance.sample(topics, min(len(topics), 2)):
            for number, records in world.living(topic).partitions.items():
                ends = [record.offset + 1 for record in records if record.gone_at is None]
                offsets[topic, number] = world.chance.choice([0, *ends]) if ends else 0
        world.source.commit(group, offsets)
        for (topic, number), offset in offsets.items():
            world.ledger.commit(group, topic, number, offset, now_ms())
        world.groups.add(group)
        return f"{group} commits in {len(offsets)} partitions"


class AbandonGroup(Move):
    """A group's offset is below what the source still holds."""

    needs_target = False

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(filled(world))

    def do(self, world: World) -> str:
        topic, number = world.chance.choice(filled(world))
        records = world.living(topic).partitions[number]
        group = f"g{world.seed}-abandoned"
        world.source.commit(group, {(topic, number): records[0].offset})
        world.ledger.commit(group, topic, number, records[0].offset, now_ms())
        world.groups.add(group)
        start = records[len(records) // 2].offset + 1
        world.source.delete_records(topic, number, start)
        world.ledger.truncate(topic, number, start, now_ms())
        if world.desired != "running":
            world.trouble[topic] = now_ms()
        return f"{group} stays at {records[0].offset} of {topic}-{number}, which begins at {start}"


class ReadLive(Move):
    """A live consumer of the source commits as it reads."""

    def possible(self, world: World) -> bool:
        free = set(quiet(world)) - world.reading
        return super().possible(world) and bool(free) and world.desired == "running"

    def do(self, world: World) -> str:
        topic = world.chance.choice(sorted(set(quiet(world)) - world.reading))
        group = f"g{world.seed}-live{len(world.reading)}"
        world.start_reader(group, topic)
        return f"{group} reads {topic}"


class ShareOnTarget(Move):
    """A share group on the target has the name of a group on the source."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(world.groups)

    def do(self, world: World) -> str:
        group = world.chance.choice(sorted(world.groups))
        topic = next(iter(world.target.topics()))
        if not world.target.share(group, topic, 3.0):
            return f"no share group {group} on the target: the name is taken"
        return f"a share group {group} on the target"


class OpenTransaction(Move):
    """A transaction that stays open holds back what comes after it."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and world.transaction is None and bool(quiet(world))

    def do(self, world: World) -> str:
        topic = world.chance.choice(quiet(world))
        world.begin_open(topic, 15)
        return f"a transaction is open in {topic}"


class EndTransaction(Move):
    """The open transaction is committed or aborted."""

    weight = 6
    needs_target = False

    def possible(self, world: World) -> bool:
        return super().possible(world) and world.transaction is not None

    def do(self, world: World) -> str:
        committed = world.chance.random() < 0.6
        world.end_open(committed=committed)
        return f"the open transaction is {'committed' if committed else 'aborted'}"


class PauseFlow(Move):
    """Paused or stopped by a person, who then writes on."""

    def possible(self, world: World) -> bool:
        return world.desired == "running"

    def do(self, world: World) -> str:
        act = world.chance.choice(("pause", "stop"))
        world.rest(f"{world.path}{act}/", {"reason": "the judge"})
        world.desired = {"pause": "paused", "stop": "stopped"}[act]
        return f"{act} the flow"


class ResumeFlow(Move):
    """A person has it run again."""

    weight = 5

    def possible(self, world: World) -> bool:
        return world.desired != "running"

    def do(self, world: World) -> str:
        act = "resume" if world.desired == "paused" else "start"
        world.rest(f"{world.path}{act}/", {"reason": "the judge"})
        world.desired, world.started_at = "running", now_ms()
        return f"{act} the flow"


class SlowFlow(Move):
    """A limit of bandwidth, so that the flow stays behind."""

    weight = 1

    def possible(self, world: World) -> bool:
        return super().possible(world) and world.desired == "running" and bool(quiet(world))

    def do(self, world: World) -> str:
        world.set_properties(**{"bandwidth.limit.bytes": "1000"})
        topic = world.chance.choice(quiet(world))
        world.produce(topic, 150, padding=400)
        return f"1,000 bytes a second, and 60 KB in {topic}"


# The target lost what was copied.
LOST_COPIES = ("remote_missing", "remote_recreated", "remote_truncated", "target_replaced")


class DecideGaps(Move):
    """A person decides what waits for it."""

    weight = 3

    def possible(self, world: World) -> bool:
        return super().possible(world) and bool(open_gaps(world))

    def do(self, world: World) -> str:
        topics = sorted({str(row["topic"]) for row in open_gaps(world)})
        topic = world.chance.choice(topics)
        choice = world.chance.choice(("accept", "restart"))
        refused = []
        for row in open_gaps(world):
            if row["topic"] == topic and row["kind"] not in ("refused", "damaged"):
                body = {"choice": choice, "reason": "the judge"}
                code, said = world.ask(f"{world.path}gaps/{row['id']}/decide/", body)
                refused += [str(said)] if code >= 400 else []
                if code < 400 and row["kind"] in LOST_COPIES:
                    at = now_ms() if choice == "accept" else None
                    end = int(str(row["position"]))
                    world.ledger.give_up(topic, int(str(row["partition"])), end, at)
        if not refused and topic not in world.denied and topic not in world.small:
            world.trouble.pop(topic, None)
        return f"decide {choice} for {topic}{': ' + refused[0] if refused else ''}"


MOVES: tuple[Move, ...] = (
    Produce(),
    CreateTopic(),
    GrowTopic(),
    DeleteTopic(),
    RecreateTopic(),
    RefuseName(),
    RefuseLength(),
    RefuseReplicas(),
    RefuseRecord(),
    DenyOnSource(),
    DenyOnTarget(),
    HideEverything(),
    Truncate(),
    WriteForeign(),
    CommitGroup(),
    AbandonGroup(),
    OpenTransaction(),
    EndTransaction(),
    PauseFlow(),
    ResumeFlow(),
    SlowFlow(),
    DeadAddress(),
    DecideGaps(),
    KillSource(),
    ReviveSource(),
    KillTarget(),
    ReviveTarget(),
    SetQuota(),
    LiftQuota(),
    DeleteRemote(),
    Expire(),
    Heal(),
    ReadLive(),
    ShareOnTarget(),
)


def choose(world: World) -> Move:
    """By the seed, among what is possible now."""
    able = [move for move in MOVES if move.possible(world)]
    return world.chance.choices(able, [move.weight for move in able])[0]
