"""What is left of queued batches after their rule: origin in headers, dead letters; no brokers."""

from __future__ import annotations

from collections.abc import Sequence

from mirrors.domain.transforms.headers import provenance_headers
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.model.target_settings import TopicSettings
from spark_runner.engine.target.batch_preparation import is_intact
from spark_runner.engine.transforms.dead_letters import DeadLetters
from spark_runner.engine.transforms.evaluation import EvaluatedRows, Halt, Row, Transforms
from spark_runner.kafka_protocol.records import Record, decode_batch, encode_batch, read_header
from spark_runner.native.crc32c import address_of

FAILS = 12
# A header name that is not UTF-8 stays as it is.
HEADERS = ((b"h", b"1"), (b"\xff", None))
RECORDS = [Record(10 + at, 1000 + at, b"k", b"v%d" % at, HEADERS) for at in range(4)]


class Evaluator:
    """Drops nothing; the value of one offset fails."""

    def __init__(self) -> None:
        self._rows: list[Sequence[Row]] = []
        self.missing_ids: set[int] = set()
        self.refused: dict[int, str] = {}
        self.reason = ""
        self.halt: Halt | None = None

    def send(self, rule: int, topic: str, partition: int, rows: Sequence[Row]) -> None:
        self._rows.append(rows)

    def receive(self) -> list[EvaluatedRows]:
        found, self._rows = self._rows, []
        return [
            EvaluatedRows(
                [True] * len(rows),
                {at: "value" for at, row in enumerate(rows) if row[0].offset == FAILS},
                None,
                None,
                None,
                reasons={FAILS - 10: self.reason} if self.reason else {},
                halt=self.halt,
            )
            for rows in found
        ]

    def fileno(self) -> int:
        return -1


class World:
    """A partition with one queued batch, and what its rule makes of it."""

    def __init__(
        self,
        rule: TransformRule,
        most_bytes: int = 0,
        records: Sequence[Record] = RECORDS,
        missing: frozenset[int] = frozenset(),
        reason: str = "",
        halt: Halt | None = None,
        refused: str = "",
    ) -> None:
        self.records = records
        evaluator = Evaluator()
        evaluator.reason, evaluator.halt = reason, halt
        if refused:
            evaluator.refused[0] = refused
        evaluator.missing_ids |= missing
        letters = TopicSettings(most_bytes=most_bytes)
        self.topic = Partition("letters", 0, "letters", is_internal=True, settings=letters)
        self.dead_letters = DeadLetters(self.topic, flow="a->b", source="a")
        self.partition = Partition("t", 3, "a.t", position=10, rule=0)
        self.stops: list[StopReason] = []
        self.transforms = Transforms(
            [rule],
            evaluator,
            ReceiveBuffers(size=1, count=1),
            corrupt=lambda *_: None,
            stop_at=lambda _, reason: self.stops.append(reason),
            offer=lambda _: None,
            is_intact=is_intact,
            dead_letters=self.dead_letters,
            source="a",
        )
        self.read()

    def read(self) -> None:
        memory = encode_batch(self.records, base=10)
        view = memoryview(memory)
        batch = PendingBatch(None, view, 0, address_of(memory), read_header(view), "")
        self.partition.add_read([batch], batch.size, 14, 0)
        self.transforms.request(self.partition)
        self.transforms.receive()

    def kept(self) -> list[Record]:
        """The queued records with their source offsets."""
        return [
            record._replace(offset=offset)
            for batch in self.partition.queue
            for offset, record in zip(batch.offsets(), decode_batch(batch.memory), strict=True)
        ]

    def write(self, acknowledged: int) -> list[Record]:
        """The dead letters of a commit up to this source offset."""
        self.partition.acknowledged_offset = acknowledged
        self.dead_letters.write([self.partition], 5000)
        found = [one for batch in self.topic.queue for one in decode_batch(batch.memory)]
        self.topic.rewind(0)
        return found


def origin(record: Record) -> tuple[tuple[bytes, bytes], ...]:
    added = provenance_headers("a", "t", 3, record.offset, record.timestamp)
    return tuple((name.encode(), value) for name, value in added)


def test_provenance_adds_the_origin_behind_the_headers_of_each_record() -> None:
    rule = TransformRule(topics="t", value="value", provenance=True, on_error="dead_letter")
    expected = [
        row._replace(headers=HEADERS + origin(row)) for row in RECORDS if row.offset != FAILS
    ]
    assert World(rule).kept() == expected


def test_a_dead_letter_is_written_once_with_the_first_position_after_it() -> None:
    world = World(TransformRule(topics="t", value="value", on_error="dead_letter"))
    assert world.kept() == [row for row in RECORDS if row.offset != FAILS]
    assert world.write(FAILS) == []
    # The records from there on are read and evaluated again.
    world.partition.rewind(10)
    world.read()
    [letter] = world.write(14)
    failed = RECORDS[FAILS - 10]
    assert (letter.timestamp, letter.key, letter.value) == (5000, failed.key, failed.value)
    assert letter.headers[:7] == HEADERS + origin(failed)
    assert dict(letter.headers)[b"understudy.error.rule"] == b"1"
    assert world.partition.dead_letters_written == 1
    world.partition.commit(-1, 0)
    assert world.partition.dead_letters == 1
    assert world.write(14) == []


def test_after_a_restart_in_place_no_dead_letter_of_the_aborted_transaction_is_left() -> None:
    world = World(TransformRule(topics="t", value="value", on_error="dead_letter"))
    world.dead_letters.begin()
    assert world.write(14) == []


def test_a_failed_record_stops_before_it_and_so_does_a_dead_letter_that_is_too_large() -> None:
    for rule, most_bytes in (
        (TransformRule(topics="t", value="value"), 0),
        (TransformRule(topics="t", value="value", on_error="dead_letter"), 100),
    ):
        world = World(rule, most_bytes)
        [stop] = world.stops
        assert (stop.code, stop.offset) == ("transform_failed", FAILS)
        assert [row.offset for row in world.kept()] == [10, 11]
        assert world.write(14) == []


def test_a_record_waits_for_a_schema_that_the_target_does_not_have() -> None:
    rule = TransformRule(topics="t", value="target_schema(value)", on_error="dead_letter")
    framed = [row._replace(value=b"\0\0\0\0\x07" + (row.value or b"")) for row in RECORDS]
    world = World(rule, records=framed, missing=frozenset({7}))
    [stop] = world.stops
    assert (stop.code, stop.offset, stop.gap) == ("schema_missing", FAILS, None)
    assert "waits for the schema of id 7" in stop.reason
    assert [row.offset for row in world.kept()] == [10, 11]
    assert world.write(14) == []
    # Another id fails as on_error says.
    world = World(rule, records=framed, missing=frozenset({8}))
    assert (world.stops, len(world.kept())) == ([], 3)


def test_the_reason_of_user_code_is_in_the_stop_and_in_the_dead_letter() -> None:
    reason = "texts.shout raised ValueError"
    world = World(TransformRule(topics="t", value="value"), reason=reason)
    [stop] = world.stops
    assert (stop.code, stop.offset) == ("transform_failed", FAILS)
    assert f"the value expression of rule 1 failed: {reason}; correct the module" in stop.reason
    assert "t-3 offset 12" in stop.reason
    rule = TransformRule(topics="t", value="value", on_error="dead_letter")
    [letter] = World(rule, reason=reason).write(14)
    text = dict(letter.headers)[b"understudy.error.reason"] or b""
    assert text.decode() == f"The value expression of rule 1 (t) failed: value. {reason}"


def test_records_that_user_code_was_not_called_for_wait_without_a_gap() -> None:
    rule = TransformRule(topics="t", value="value", on_error="dead_letter")
    for number, kept, letters in ((0, [], 0), (2, [10, 11], 0), (3, [10, 11], 1)):
        world = World(rule, halt=Halt(number, "user_code_interrupted", "it took too long."))
        [stop] = world.stops
        assert (stop.code, stop.offset, stop.gap) == ("user_code_interrupted", 10 + number, None)
        assert stop.state == "faulted"
        assert "it took too long. The partition stops there" in stop.reason
        assert [row.offset for row in world.kept()] == kept
        assert len(world.write(10 + number)) == letters


def test_a_rule_whose_module_is_refused_stops_before_the_first_record_without_a_gap() -> None:
    world = World(TransformRule(topics="t", value="value"), refused="texts.py has another SHA-256.")
    [stop] = world.stops
    assert (stop.code, stop.offset, stop.gap) == ("module_refused", 10, None)
    assert "texts.py has another SHA-256. The partition stops there" in stop.reason
