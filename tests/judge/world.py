"""The state of one round: two clusters, one flow, the ledger, injected faults."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
import urllib.error
from typing import Any

from tests.dead_addresses import KINDS
from tests.journeys.demo_client import Person, Rest
from tests.judge.cluster import KafkaSide, Reader, Writer, now_ms
from tests.judge.ledger import Generation, Ledger, Record, TargetReading, TopicPartition
from tests.judge.stage import JudgeStage, remove_flow

PARTITIONS = (1, 2, 3, 6)
# In one round of this number the product connects by TLS.
TLS = 4
# In one round of this number topics keep their names on the target.
IDENTITY = 5
# A runner and its Spark application start meanwhile, on a busy machine too.
RUNNING_S = 240.0
ABORTED_S = 60.0
# So long after a quota the counts of records are still behind.
QUOTA_TAIL_MS = 60_000


@dataclasses.dataclass
class OpenTransaction:
    """`held` are records of others that are hidden behind it."""

    writer: Writer
    records: list[tuple[str, int, Record]]
    held: list[Record] = dataclasses.field(default_factory=list)


class World:
    """What moves act on and what is judged. Everything is named after the seed."""

    def __init__(self, stage: JudgeStage, person: Person, seed: int) -> None:
        self.stage, self.person, self.seed = stage, person, seed
        self.chance = random.Random(seed)
        self.rest = Rest(stage)
        self.prefix = f"j{seed}."
        self.source_alias, self.target_alias = f"s{seed}", f"t{seed}"
        self.source = KafkaSide(stage.clusters["primary"])
        self.target = KafkaSide(stage.clusters["backup"])
        # Topics keep their names on the target.
        self.is_same_name = seed % IDENTITY == 3
        self.ledger = Ledger("" if self.is_same_name else f"{self.source_alias}.")
        # The product connects by TLS.
        self.is_by_tls = seed % TLS == 1
        self.steps: list[str] = []
        self.flow = 0
        self.groups: set[str] = set()
        # Topics whose records cannot cross until a person acts, and since when.
        self.trouble: dict[str, int] = {}
        # Topics that the product may not describe.
        self.hidden: set[str] = set()
        # What was denied, refused or made small, and is put right by another move.
        self.denied: dict[str, KafkaSide] = {}
        self.small: set[str] = set()
        # The judge itself cannot see the round's topics either.
        self.sees_nothing = False
        self.desired = "running"
        # When it was last started or resumed, and when its source was back.
        self.started_at = 0
        # Since when a cluster has an address where nobody answers.
        self.readdressed_at: int | None = None
        # A quota that throttles the product, and since when.
        self.quota: tuple[KafkaSide, str] | None = None
        self.quota_set_at = 0
        # None: while the source was dead.
        self.source_quota_lifted_at: int | None = 0
        self.target_died_at = 0
        self.target_back_at = 0
        self.transaction: OpenTransaction | None = None
        self.acted_at = now_ms()
        # The flow of a failback, once there is one.
        self.reverse = 0
        # The address of the real run, once there was one.
        self.ran = ""
        self._values = 0
        self._names = 0
        self._writers: dict[bool, Writer] = {}
        self._addresses = contextlib.ExitStack()
        self._readers: dict[str, Reader] = {}
        # Groups that were read on the source, each with its topic, and their readers on the target.
        self._live: dict[str, str] = {}
        self._moved: dict[str, Reader] = {}

    @property
    def name(self) -> str:
        return f"{self.source_alias}->{self.target_alias}"

    @property
    def path(self) -> str:
        return f"flows/{self.flow}/"

    @property
    def source_is_dead(self) -> bool:
        return self.stage.is_dead("primary")

    @property
    def target_is_dead(self) -> bool:
        return self.stage.is_dead("backup")

    @property
    def is_calm(self) -> bool:
        """All clusters answer, the flow runs, and nothing is in flight."""
        is_dead = self.source_is_dead or self.target_is_dead
        return not is_dead and self.desired == "running" and self.transaction is None

    @staticmethod
    def later() -> int:
        """A moment at which all that is there now counts."""
        return now_ms() + 20_000

    def connection(self, name: str) -> dict[str, str]:
        """How the product connects to a cluster in this round."""
        return self.stage.connection(name, by_tls=self.is_by_tls)

    def begin(self, *, start: bool = True) -> None:
        """Clusters under names of this round, and its flow."""
        for alias, name in ((self.source_alias, "primary"), (self.target_alias, "backup")):
            self.rest("clusters/", {"alias": alias, **self.connection(name)})
        flow = {"source": self.source_alias, "target": self.target_alias}
        desired = "running" if start else "stopped"
        body = {**flow, "properties": self.properties(), "desired_state": desired}
        made = self.rest("flows/", body)
        self.flow = made["id"]
        if start and made["desired_state"] != "running":
            self.rest(f"{self.path}start/", {"reason": "the judge"})

    def properties(self, **more: str) -> dict[str, str]:
        names = f"j{self.seed}\\..*"
        policy = {"replication.policy.class": "IdentityReplicationPolicy"}
        return {
            **(policy if self.is_same_name else {}),
            "topics": names,
            "groups": f"g{self.seed}-.*",
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "2",
            "emit.checkpoints.interval.seconds": "3",
            "sync.group.offsets.enabled": "true" if self.seed % 2 else "false",
            "sync.group.offsets.interval.seconds": "3",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "commit.interval.ms": "200",
            "failover.fence": "acl" if self.seed % 3 else "none",
            "failover.start.consumers": "none",
            "failover.redirect.producers": "none",
            **more,
        }

    def set_properties(self, **more: str) -> None:
        self.rest(self.path, {"properties": self.properties(**more)}, method="PATCH")

    def end(self) -> None:
        """Put right what the round broke, and remove what it made."""
        self.stop_readers()
        self.stop_moved()
        self._addresses.close()
        if self.source_is_dead:
            self.revive_source()
        if self.target_is_dead:
            self.revive_target()
        self.lift_quota()
        self.heal()
        if self.flow:
            self._end_runs()
            for flow in filter(None, (self.reverse, self.flow)):
                remove_flow(self.rest, flow)
            for alias in (self.source_alias, self.target_alias):
                self.rest(f"clusters/{alias}/", method="DELETE")
        names = (self.source_alias, self.target_alias)
        internal = tuple(f".{alias}.internal" for alias in names)
        for side, came_from in (
            (self.source, self.target_alias),
            (self.target, self.source_alias),
        ):
            own = (self.prefix, f"{came_from}.{self.prefix}")
            made = [name for name in side.topics() if name.startswith(own)]
            made += [name for name in side.topics() if name.endswith(internal)]
            if made:
                side.delete(*made)

    def _end_runs(self) -> None:
        for run in self.rest("failovers/?page_size=20")["results"]:
            if run["flow"] in (self.flow, self.reverse) and run["ended_at"] is None:
                path = f"failovers/{run['id']}/"
                self.ask(f"{path}abort/", {"reason": "the round ends"})
                until = time.monotonic() + ABORTED_S
                while self.rest(path)["ended_at"] is None and time.monotonic() < until:
                    self.wait_a_moment()

    def ask(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Status and answer of a request that may be refused."""
        try:
            return 200, self.rest(path, body)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")[:600]

    # What is written.

    def new_name(self, word: str = "t") -> str:
        self._names += 1
        return f"{self.prefix}{word}{self._names}"

    def create(self, topic: str, partitions: int, config: dict[str, str] | None = None) -> None:
        self.source.create(topic, partitions, config)
        self.ledger.create(topic, partitions, now_ms())
        self._wait_for_partitions(topic, partitions)

    def grow(self, topic: str, partitions: int) -> None:
        self.source.grow(topic, partitions)
        self.ledger.grow(topic, partitions, now_ms())
        self._wait_for_partitions(topic, partitions)

    def _wait_for_partitions(self, topic: str, partitions: int) -> None:
        """A broker, and a producer that knew the topic, hear of it a moment later."""
        until = time.monotonic() + 20
        while self.source.topics().get(topic) != partitions:
            assert time.monotonic() < until, f"{topic} does not get {partitions} partitions"
            self.wait_a_moment()
        self._writers.clear()

    def value(self) -> str:
        self._values += 1
        return f"{self.seed}-{self._values}"

    def foreign_writer(self) -> Writer:
        return Writer(self.target)

    @staticmethod
    def wait_a_moment() -> None:
        time.sleep(0.2)

    def writer(self, *, bound: bool = False) -> Writer:
        if bound not in self._writers:
            self._writers[bound] = Writer(self.source, bound=bound)
        return self._writers[bound]

    def produce(self, topic: str, count: int, *, how: str = "plain", padding: int = 0) -> None:
        """`how`: plain, commit or abort. Records are spread over all partitions by chance."""
        generation = self.ledger.current(topic)
        assert generation is not None
        partitions = list(generation.partitions)
        rows = [((topic, self.chance.choice(partitions)), self.value()) for _ in range(count)]
        writer = self.writer(bound=how != "plain")
        if how != "plain":
            writer.producer.begin_transaction()
        records = self._written(writer, rows, padding)
        if how == "commit":
            writer.producer.commit_transaction(30)
        elif how == "abort":
            writer.producer.abort_transaction(30)
        at = now_ms()
        for _, _, record in records:
            record.visible_at = None if how == "abort" else at
        self._hide_behind_open(records)

    def begin_open(self, topic: str, count: int) -> None:
        """A transaction that holds back what comes after it until it ends."""
        generation = self.ledger.current(topic)
        assert generation is not None
        writer = Writer(self.source, bound=True)
        writer.producer.begin_transaction()
        partition = self.chance.choice(list(generation.partitions))
        rows = [((topic, partition), self.value()) for _ in range(count)]
        self.transaction = OpenTransaction(writer, self._written(writer, rows, 0))

    def end_open(self, *, committed: bool) -> None:
        assert self.transaction is not None
        if committed:
            self.transaction.writer.producer.commit_transaction(30)
        else:
            self.transaction.writer.producer.abort_transaction(30)
        at = now_ms()
        for _, _, record in self.transaction.records:
            record.visible_at = at if committed else None
        for record in self.transaction.held:
            record.visible_at = at
        self.transaction = None

    def _hide_behind_open(self, records: list[tuple[str, int, Record]]) -> None:
        """Nobody who reads committed records sees what lies behind an open transaction."""
        held = {(row[0], row[1]) for row in (self.transaction.records if self.transaction else ())}
        for topic, partition, record in records:
            if (topic, partition) in held and record.visible_at is not None:
                record.visible_at = None
                assert self.transaction is not None
                self.transaction.held.append(record)

    def _written(
        self, writer: Writer, rows: list[tuple[TopicPartition, str]], padding: int
    ) -> list[tuple[str, int, Record]]:
        sent_at = now_ms()
        offsets = writer.write(rows, padding)
        found = []
        for ((topic, partition), value), offset in zip(rows, offsets, strict=True):
            record = Record(offset, value, sent_at, None)
            self.living(topic).partitions[partition].append(record)
            found.append((topic, partition, record))
        return found

    def living(self, topic: str) -> Generation:
        generation = self.ledger.current(topic)
        assert generation is not None, topic
        return generation

    # What is broken and repaired.

    def kill_source(self) -> None:
        self.stage.kill("primary")
        self._writers.clear()
        self.source.forget()

    def revive_source(self) -> None:
        self.stage.revive("primary")
        self.source.forget()
        self.started_at = now_ms()

    def kill_target(self) -> None:
        self.look()
        self.stage.kill("backup")
        self.ledger.target_died(now_ms())
        self.target.forget()
        self.target_died_at = now_ms()

    def revive_target(self) -> None:
        self.stage.revive("backup")
        self.target.forget()
        self.target_back_at = now_ms()

    @property
    def dead_kinds(self) -> tuple[str, ...]:
        """Kinds of addresses that do not serve the product's way to connect."""
        return (*KINDS, *(self.stage.wrong_listeners if self.is_by_tls else ("TLS",)))

    def dead_address(self, kind: str, name: str) -> str:
        """Where nobody serves; a listener of this cluster for others, or a certificate at fault."""
        if kind in KINDS:
            return self._addresses.enter_context(KINDS[kind]())
        return self.stage.address(name, kind)

    def heal(self) -> str:
        """What was denied is allowed again. The names of it."""
        for topic, side in self.denied.items():
            side.allow(topic)
            own = topic.removeprefix(self.ledger.remote(""))
            self.trouble.pop(own, None)
            self.hidden.discard(own)
            for generation in self.ledger.living():
                if generation.topic == own:
                    generation.changed_at = now_ms()
        allowed = ", ".join(self.denied)
        self.denied.clear()
        self.sees_nothing = False
        return allowed

    def set_quota(self, side: KafkaSide, key: str, rate: float) -> None:
        side.set_quota(key, rate)
        self.quota = side, key
        self.quota_set_at = now_ms()

    def lift_quota(self) -> None:
        if self.quota is not None:
            side, key = self.quota
            side.set_quota(key, None)
            self.quota = None
            if side is self.source and not self.source_is_dead:
                self.source_quota_lifted_at = now_ms()
            elif side is self.source:
                self.source_quota_lifted_at = None

    def is_source_throttled(self, at: int) -> bool:
        """Whether a quota slows the product's reads of the source, or did until shortly before.

        One that is lifted while the source is dead slowed them until its death.
        """
        if self.quota is not None:
            return self.quota[0] is self.source
        lifted = self.source_quota_lifted_at
        return lifted is None or at < lifted + QUOTA_TAIL_MS

    # Who reads.

    def start_reader(self, group: str, topic: str) -> None:
        """A live consumer of the source, which commits what it reads."""
        self._readers[group] = Reader(self.source, group, topic)
        self._live[group] = topic
        self.groups.add(group)

    def stop_readers(self) -> None:
        for reader in self._readers.values():
            reader.stop()
        self._readers.clear()

    def stop_moved(self) -> None:
        for reader in self._moved.values():
            reader.stop()
        self._moved.clear()

    def read_on_target(self) -> None:
        """The live consumers start on the target, once."""
        for group, topic in self._live.items():
            if group not in self._moved:
                remote = self.ledger.remote(topic)
                self._moved[group] = Reader(self.target, group, remote)

    def placed(self, group: str) -> dict[TopicPartition, int]:
        """Where a group is on the target: where its consumer began, else what is committed."""
        reader = self._moved.get(group)
        return self.target.committed(group) | (reader.began if reader is not None else {})

    def note_readers(self) -> None:
        """Write down where live groups are now; nothing is produced meanwhile."""
        for group, reader in self._readers.items():
            for (topic, number), offset in self.source.committed(group).items():
                if topic == reader.topic and self.ledger.current(topic) is not None:
                    self.ledger.commit(group, topic, number, offset, now_ms())

    @property
    def reading(self) -> set[str]:
        """Topics that live consumers read."""
        return {reader.topic for reader in self._readers.values()}

    # What is seen.

    def look(self) -> dict[TopicPartition, list[tuple[int, str]]]:
        """Read every remote topic of the ledger; kept as a look of the ledger."""
        at = now_ms()
        there = self.target.topics()
        remote = (self.ledger.remote(topic) for topic in self.ledger.topics)
        copies = self.target.read({name: there[name] for name in remote if name in there})
        values = {tp: {value for _, value in rows} for tp, rows in copies.items()}
        self.ledger.looks.append(TargetReading(at, values))
        return copies

    def known_owed(self, at: int) -> str:
        """A sentence with what is surely owed of topics that the product may describe, or ""."""
        amounts = {
            topic: self.ledger.owed(at, topic).least
            for topic in self.ledger.topics
            if topic not in self.hidden
        }
        owing = [topic for topic, amount in amounts.items() if amount]
        if not owing:
            return ""
        return f"at least {sum(amounts.values()):,}, of {', '.join(name[:40] for name in owing)}"

    def wait_until_running(self) -> None:
        until = time.monotonic() + RUNNING_S
        while (flow := self.rest(self.path))["observed_state"] not in {"running", "degraded"}:
            assert time.monotonic() < until, (
                f"{self.name} is {flow['observed_state']} after {RUNNING_S:.0f} s: {flow['reason']}"
            )
            time.sleep(0.3)
