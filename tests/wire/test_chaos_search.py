"""Exactly once under random faults, searched by seed.

`make test-soak RUN="-k chaos"` searches on. UNDERSTUDY_CHAOS_ROUNDS sets the number of seeds,
UNDERSTUDY_CHAOS_FIRST the first one. A seed determines the faults; the brokers determine their
time.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator

import pytest

from mirrors.domain.offsets.run_blocks import read_block
from mirrors.domain.offsets.runs import BlockKey, is_skipped_generation
from mirrors.domain.transforms.headers import SOURCE_OFFSET, SOURCE_PARTITION, SOURCE_TOPIC
from mirrors.domain.transforms.rules import TRANSFORMS
from spark_runner.engine.epoch import RawCopier
from spark_runner.engine.recovery.position_reader import PositionReader
from spark_runner.ipc.messages import SliceResult
from spark_runner.kafka_protocol import produce
from spark_runner.kafka_protocol.records import Record, encode_batch
from tests.wire.chaos import Chaos, FaultPlan, ProcessKilled
from tests.wire.delayed_rules import RULES, DelayedRules, expected, fails, place, routed_rules
from tests.wire.world import Driver, Flow, Side, bare, soon, unique

log = logging.getLogger(__name__)

NOW = int(time.time() * 1000)
PARTITIONS = 12
# Why a partition may stop, and what must have befallen it.
JUSTIFIED = {
    "invalid_record": "rejected permanently",
    "too_large": "rejected permanently",
    "not_authorised": "rejected permanently",
    "corrupt_source": "damaged",
}
ROUNDS = int(os.environ.get("UNDERSTUDY_CHAOS_ROUNDS", "40"))
FIRST = int(os.environ.get("UNDERSTUDY_CHAOS_FIRST", "1000"))


class Traffic:
    """Batches of every kind into all partitions, from a thread of its own, until it is ended."""

    def __init__(self, address: str, topic: str, chance: random.Random) -> None:
        self._side = Side("traffic", address)
        self._view = self._side.client.describe([topic], soon())[topic]
        self._chance = chance
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(60)
        self._side.close()

    def _run(self) -> None:
        chance, connection = self._chance, None
        connection = self._side.client.connection(self._view.leaders[0].node, "traffic", soon())
        writer = produce.RequestWriter(13, None, timeout_ms=10_000)
        while not self._over.wait(chance.choice((0.0, 0.01, 0.05))):
            for _ in range(chance.choice((1, 1, 6))):
                places = chance.sample(range(PARTITIONS), chance.randrange(1, PARTITIONS + 1))
                rows = [(at.to_bytes(4, "big"), self._batch()) for at in places]
                connection.send(
                    writer.parts(connection.next_correlation(), [(self._view.topic_id, rows)]),
                    soon(),
                )
                answers = produce.read_reply(connection.receive(None, soon()), 13)[1]
                assert not any(answer.error for answer in answers), answers

    def _batch(self) -> bytearray:
        chance = self._chance
        records, size = chance.choice(((1, 20), (3, 200), (2, 3), (90, 5), (2, 9_000), (1, 40_000)))
        rows = [
            Record(at, NOW + at, b"k", b"%d." % next(self._numbers) + chance.randbytes(size))
            for at in range(chance.randint(1, records))
        ]
        return encode_batch(rows, codec=chance.choice((0, 0, 1, 2, 3, 4)))


class Round:
    """One flow under chaos from beginning to end."""

    def __init__(
        self,
        source: Side,
        target: Side,
        patch: pytest.MonkeyPatch,
        seed: int,
        delivery: str,
        pace: float,
        routes: int = 0,
        **properties: str,
    ) -> None:
        self.chance = chance = random.Random(seed)
        self._routes = [unique(f"route{number}") for number in range(routes)]
        if routes:
            properties[TRANSFORMS] = routed_rules(self._routes)
        self._pace = pace
        self.chaos = Chaos(patch)
        self.topic = unique("chaos")
        source.make(self.topic, PARTITIONS)
        self.flow = Flow(
            source,
            target,
            delivery=delivery,
            commit_interval_ms=chance.choice(("20", "60", "150", "500")),
            producer_max_request_size=chance.choice(("20000", "200000", "8388608")),
            **properties,
        )
        self.remote = self.flow.add(self.topic, routes=self._routes)
        self._newest = (13, 11)[seed % 2]
        self._ruled = TRANSFORMS in properties
        self._wild = chance.choice((0.5, 1.0, 2.0, 4.0))
        self.results: list[SliceResult | None] = []

    def run(self, epochs: int) -> None:
        lingering: list[tuple[threading.Thread, FaultPlan]] = []
        own = random.Random(self.chance.random())
        with Traffic(self.flow.source.spec.bootstrap_servers, self.topic, own):
            for _ in range(epochs):
                kind = self.chance.choice(("ends", "ends", "ends", "dies", "freezes", "overlaps"))
                seconds = self._pace * self.chance.uniform(0.05, 0.5)
                fate = FaultPlan(
                    random.Random(self.chance.random()),
                    dies=kind == "dies",
                    freezes=kind == "freezes",
                    wild=self._wild,
                    pace=self._pace,
                )
                stop_at = time.monotonic() + seconds + (0.3 if kind == "overlaps" else 0)
                thread = threading.Thread(target=self._epoch, args=(fate, stop_at))
                thread.start()
                if kind == "freezes":
                    fate.frozen.wait(seconds)
                elif kind == "overlaps":
                    time.sleep(seconds)
                for one, its in lingering:
                    time.sleep(self.chance.uniform(0, 0.2))
                    its.thawed.set()
                    one.join(60)
                    assert not one.is_alive()
                lingering = [(thread, fate)]
                if kind in ("ends", "dies"):
                    thread.join(60)
            for one, its in lingering:
                its.thawed.set()
                one.join(60)

    def _epoch(self, fate: FaultPlan, stop_at: float) -> None:
        self.chaos.under(fate)
        driver = Driver(until=lambda _: time.monotonic() > stop_at)
        with self._copier() as copier:
            try:
                result = copier.run(self.flow.work(), driver)  # type: ignore[arg-type]
            except ProcessKilled:
                return
        self.results.append(result)

    @contextlib.contextmanager
    def _copier(self) -> Iterator[RawCopier]:
        rules = None
        if self._ruled:
            rules = DelayedRules(self.chance.random(), self._pace, self._routes)
        try:
            yield RawCopier(newest_produce=self._newest, evaluator=rules)
        finally:
            if rules is not None:
                rules.close()

    def settle(self) -> None:
        """Without any more trouble, up to the end."""
        with self._copier() as copier:
            result, _ = self.flow.copy(copier)
        assert result.ended_because == "stop", result
        self.results.append(result)

    def summary(self) -> str:
        ends = Counter(result.ended_because for result in self.results if result is not None)
        return (
            f"{self.flow.properties}, produce {self._newest}, trouble x{self._wild}; "
            f"ended {dict(ends)}, met {dict(self.chaos.seen)}"
        )

    def faults(self) -> Iterator[str]:
        """Everything that is not as it must be."""
        yield from self._unjustified()
        flow, ends = self.flow, self.flow.ends()
        # The response to EndTxn comes before its markers are written.
        partitions = [(self.topic, partition) for partition in range(PARTITIONS)]
        known = PositionReader(flow.target.client, flow.positions_topic).read(soon(), partitions)
        maps = self._maps()
        for partition in range(PARTITIONS):
            tp = (self.topic, partition)
            if known[tp].position != ends[tp]:
                yield f"{tp}: position {known[tp].position}, end {ends[tp]}"
            above = flow.source.read(self.topic, partition)
            if self._ruled:
                letters = self._dead_letters(partition)
                yield from _letter_faults(tp, above, letters, known[tp].dead_letters)
                above = list(expected(above))
            if self._routes:
                yield from self._routed_faults(tp, above)
                continue
            below = flow.target.read(self.remote, partition)
            if flow.properties["delivery"] == "at_least_once":
                if set(bare(above)) - set(bare(below)):
                    yield f"{tp}: lost {len(set(bare(above)) - set(bare(below)))}"
                continue
            yield from _difference(tp, above, below, maps[partition])

    def _routed_faults(self, tp: tuple[str, int], above: list[Record]) -> Iterator[str]:
        """Of each target topic: its records in order, and a map of its own."""
        ids = self.flow.rows[tp[1]].remote_topics
        blocks = self.flow.blocks()
        for number, name in enumerate((self.remote, *self._routes)):
            mine = [record for record in above if place(record.offset) == number]
            below = self.flow.target.read(name, tp[1])
            runs = self.flow.runs(*tp, blocks=blocks, into=ids[name])
            mapped = [
                (run.upstream + at, run.downstream + at) for run in runs for at in range(run.length)
            ]
            yield from _difference((*tp, name), mine, below, mapped)

    def _unjustified(self) -> Iterator[str]:
        """Partitions that stopped without a fault, and foreign records."""
        for result in self.results:
            for error in result.errors if result else ():
                if not self.chaos.seen[JUSTIFIED.get(error.code, "")]:
                    yield f"stopped: {error}"
            for row in result.partitions if result else ():
                if row.foreign:
                    yield f"foreign records: {row}"

    def _dead_letters(self, partition: int) -> list[Record]:
        """The dead letters of a source partition, in order."""
        place = {
            SOURCE_TOPIC.encode(): self.topic.encode(),
            SOURCE_PARTITION.encode(): b"%d" % partition,
        }
        rows = self.flow.target.read(self.flow.work().dead_letter_topic)
        return [row for row in rows if place.items() <= dict(row.headers).items()]

    def _maps(self) -> dict[int, list[tuple[int, int]]]:
        latest: dict[bytes, bytes] = {}
        for record in self.flow.target.read(self.flow.runs_topic):
            if not is_skipped_generation(BlockKey.from_bytes(record.key or b"").generation):
                latest[record.key or b""] = record.value or b""
        found: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for key, value in latest.items():
            for run in read_block(value):
                found[BlockKey.from_bytes(key).partition] += [
                    (run.upstream + at, run.downstream + at) for at in range(run.length)
                ]
        return found


def _letter_faults(
    place: object, above: list[Record], letters: list[Record], counted: int
) -> Iterator[str]:
    wanted = [(one.offset, one.key, one.value) for one in above if fails(one.offset)]
    found = [
        (int(dict(one.headers)[SOURCE_OFFSET.encode()] or b""), one.key, one.value)
        for one in letters
    ]
    if found != wanted or counted != len(wanted):
        different = len(set(found))
        yield f"{place}: {len(found)} dead letters ({different} different) of {len(wanted)}"
        yield f"{place}: counts {counted} dead letters"


def _difference(
    place: object, above: list[Record], below: list[Record], mapped: list[tuple[int, int]]
) -> Iterator[str]:
    wanted, found = Counter(bare(above)), Counter(bare(below))
    if bare(above) != bare(below):
        twice = sum((found - wanted).values())
        lost = sum((wanted - found).values())
        yield f"{place}: of {len(above)} records {twice} too many, {lost} too few"
    else:
        true = [(one.offset, other.offset) for one, other in zip(above, below, strict=True)]
        if sorted(mapped) != true:
            yield f"{place}: the map has {len(mapped)} records, {len(true)} were copied"


def one_round(
    source: Side,
    target: Side,
    seed: int,
    *,
    epochs: int,
    delivery: str = "exactly_once",
    pace: float = 1.0,
    routes: int = 0,
    **properties: str,
) -> Counter[str]:
    with pytest.MonkeyPatch.context() as patch:
        trial = Round(source, target, patch, seed, delivery, pace, routes, **properties)
        trial.run(epochs)
        trial.settle()
    faults = list(trial.faults())
    log.info("seed %d: %s", seed, trial.summary())
    assert not faults, f"seed {seed} ({trial.summary()}): " + "; ".join(faults)
    return trial.chaos.seen


def alike(seed: int) -> range:
    """More seeds: how many requests a round has depends on the machine, and some refuse none."""
    return range(seed, seed + 400, 100)


@pytest.mark.parametrize("seed", [12, 27])
def test_every_record_crosses_once_whatever_is_refused_lost_or_killed(
    source: Side, target: Side, seed: int
) -> None:
    assert any(one_round(source, target, number, epochs=6)["refused"] for number in alike(seed)), (
        "nothing was tested"
    )


@pytest.mark.parametrize("seed", [33, 35])
def test_with_rules_every_kept_record_crosses_once(source: Side, target: Side, seed: int) -> None:
    assert any(
        one_round(source, target, number, epochs=6, transforms=RULES)["refused"]
        for number in alike(seed)
    ), "nothing was tested"


@pytest.mark.parametrize("seed", [41, 42, 43])
def test_with_routes_every_record_crosses_once_into_its_topic(
    source: Side, target: Side, seed: int
) -> None:
    assert any(
        one_round(source, target, number, epochs=6, routes=2)["refused"] for number in alike(seed)
    ), "nothing was tested"


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("rules", "routes"), [("", 0), (RULES, 0), (RULES, 2)], ids=["raw", "rules", "routes"]
)
def test_chaos_finds_no_schedule_that_loses_or_repeats(
    source: Side, target: Side, rules: str, routes: int
) -> None:
    found = []
    for seed in range(FIRST, FIRST + ROUNDS):
        try:
            given = {TRANSFORMS: rules} if rules else {}
            one_round(source, target, seed, epochs=12, routes=routes, **given)
        except AssertionError as error:
            found.append(str(error))
            log.warning("found: %s", error)
    assert not found, found
