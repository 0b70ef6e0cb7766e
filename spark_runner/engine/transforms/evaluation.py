"""Filters and changes queued batches by the rules of a flow, before they are stamped.

The queue of the partition stays the only queue. The first batches that no rule has seen are sent to
the evaluator and stay queued. Its answer replaces them by batches of the records that the rules
kept. Records that a rule drops are holes in the offsets, as after compaction, so positions, offset
runs and translation need nothing else. A record whose expression fails stops its partition, or is
such a hole and a dead letter (`dead_letters`).
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from mirrors.domain.gaps.lost_ranges import uncopyable
from mirrors.domain.transforms.headers import provenance_headers
from mirrors.domain.transforms.rules import TransformRule
from spark_runner.engine.batches import repack
from spark_runner.engine.batches.header_scan import TRANSFORMED
from spark_runner.engine.batches.record_bytes import RecordBytes
from spark_runner.engine.model.partition import Partition
from spark_runner.engine.model.pending_batch import PendingBatch
from spark_runner.engine.model.receive_buffers import ReceiveBuffers
from spark_runner.engine.model.stop_reason import StopReason
from spark_runner.engine.rejections import not_replicated
from spark_runner.engine.transforms.dead_letters import DeadLetters
from spark_runner.engine.transforms.record_fields import (
    Header,
    RecordFields,
    headers_part_of,
    part_of,
)
from spark_runner.engine.transforms.routes import divided, is_full
from spark_runner.kafka_protocol.batch_header import LOG_APPEND_TIME
from spark_runner.kafka_protocol.varint import wrapped

# A partition has this many requests open, each with at least one batch and at most about this size.
_REQUESTS: Final = 2
_REQUEST_BYTES: Final = 1 << 20
_REQUEST_RECORDS: Final = 4000
# Records in open requests of all partitions.
_MOST_RECORDS: Final = 20_000
# Bytes of records in a rebuilt batch, before compression.
_BATCH_BYTES: Final = 512 << 10
# A zero byte and the id of a schema.
_SCHEMA_PREFIX: Final = 5
SCHEMA_MISSING: Final = "schema_missing"
MODULE_REFUSED: Final = "module_refused"
USER_CODE_INTERRUPTED: Final = "user_code_interrupted"

Row = tuple[RecordBytes, RecordFields, int]
"""A record, its parts, and 1 if its timestamp is that of the broker (LogAppendTime)."""


class Halt(NamedTuple):
    """User code was not called from the record with this number on. `reason` is a clause."""

    number: int
    code: str
    reason: str


class EvaluatedRows(NamedTuple):
    """The answer to one request, a value per record.

    - `failed`: the field whose expression failed, by the record's number.
    - `keys`, `values`, `headers`: None where the rule does not change them. Only the values of
      records that are kept count.
    - `topics`: the target topic of each record, None for that of the policy.
    - `reasons`: why user code failed, by the record's number. `interrupted`: numbers of records for
      which it took too long or ended its process.
    """

    kept: list[bool]
    failed: dict[int, str]
    keys: list[bytes | None] | None
    values: list[bytes | None] | None
    headers: list[list[Header]] | None
    topics: list[str | None] | None = None
    reasons: Mapping[int, str] = MappingProxyType({})
    interrupted: Collection[int] = ()
    halt: Halt | None = None


class Evaluator(Protocol):
    """Evaluates rules outside of this thread. Answers come in the order of the requests.

    - `missing_ids`: ids of schemas that the target's registry did not have. A failed record with
      such an id waits.
    - `refused`: why the user code of a rule cannot be used here, by its index. Its partitions stop.
    """

    missing_ids: set[int]
    refused: dict[int, str]

    def send(self, rule: int, topic: str, partition: int, rows: Sequence[Row]) -> None:
        """Evaluate the rule with this index. Never blocks."""

    def receive(self) -> list[EvaluatedRows]:
        """The answers that have arrived. Raises UnderstudyError when there will be none."""

    def fileno(self) -> int:
        """Readable when an answer has arrived."""


class _Request(NamedTuple):
    partition: Partition
    batches: list[PendingBatch]
    rows: list[Row]


class Transforms:
    """All requests of a slice.

    - `corrupt` and `stop_at` receive a partition that stops at its first queued batch.
    - `offer` receives partitions that have something to send.
    """

    def __init__(
        self,
        rules: Sequence[TransformRule],
        evaluator: Evaluator,
        buffers: ReceiveBuffers,
        *,
        corrupt: Callable[[Partition, PendingBatch, str], None],
        stop_at: Callable[[Partition, StopReason], None],
        offer: Callable[[Partition], None],
        is_intact: Callable[[PendingBatch], bool],
        dead_letters: DeadLetters | None = None,
        source: str = "",
    ) -> None:
        """`source` is the alias of the source, for headers with the origin."""
        self._rules = rules
        self._evaluator = evaluator
        self._buffers = buffers
        self._corrupt, self._stop_at, self._offer = corrupt, stop_at, offer
        self._is_intact = is_intact
        self._dead_letters = dead_letters
        self._source = source
        self._open: deque[_Request] = deque()
        self._open_records = 0
        # They wait until other requests are answered.
        self._waiting: dict[Partition, None] = {}
        # They wait until their further target topics have accepted records.
        self._full: dict[Partition, None] = {}
        # A position moved without a record that is written.
        self.has_quiet_progress = False

    def fileno(self) -> int:
        return self._evaluator.fileno()

    def request(self, partition: Partition) -> None:
        """Send what the rules have not seen, as far as the limits allow."""
        if (why := self._evaluator.refused.get(partition.rule)) is not None:
            self._refuse_code(partition, why)
            return
        if partition.routes and is_full(partition):
            self._full[partition] = None
            return
        waiting = sum(request.partition is partition for request in self._open)
        while waiting < _REQUESTS:
            if self._open_records > _MOST_RECORDS:
                self._waiting[partition] = None
                return
            request = self._next(partition)
            if request is None:
                return
            self._open.append(request)
            self._open_records += len(request.rows)
            waiting += 1
            self._evaluator.send(partition.rule, partition.topic, partition.partition, request.rows)

    def _refuse_code(self, partition: Partition, why: str) -> None:
        waiting = next((batch for batch in partition.queue if not batch.is_evaluated), None)
        if waiting is not None:
            halt = Halt(0, MODULE_REFUSED, why)
            self._stop_at(partition, _halted(partition, waiting.first, halt))

    def receive(self) -> None:
        """Apply the answers that have arrived."""
        for answer in self._evaluator.receive():
            request = self._open.popleft()
            self._open_records -= len(request.rows)
            partition = request.partition
            at = _index_of(partition, request.batches[0])
            if at < 0:
                # The partition has been stopped or begun again meanwhile.
                continue
            self._apply(request, answer, at)
            self._offer(partition)
        if self._full:
            for partition in [full for full in self._full if not is_full(full)]:
                del self._full[partition]
                self._offer(partition)
        if self._waiting and self._open_records <= _MOST_RECORDS:
            waiting, self._waiting = self._waiting, {}
            for partition in waiting:
                self._offer(partition)

    def _next(self, partition: Partition) -> _Request | None:
        batches: list[PendingBatch] = []
        rows: list[Row] = []
        size = 0
        for batch in partition.queue:
            if batch.is_evaluated or batch.is_requested:
                continue
            size += batch.size
            if batches and (size > _REQUEST_BYTES or len(rows) > _REQUEST_RECORDS):
                break
            what = "its checksum is wrong"
            try:
                found = _rows(partition, batch) if self._is_intact(batch) else None
            except (IndexError, ValueError, struct.error) as error:
                found, what = None, str(error) or "a record is cut off"
            if found is None:
                if batch is partition.queue[0]:
                    self._corrupt(partition, batch, what)
                break
            batches.append(batch)
            rows += found
        if not batches:
            return None
        for batch in batches:
            batch.is_requested = True
        return _Request(partition, batches, rows)

    def _apply(self, request: _Request, answer: EvaluatedRows, at: int) -> None:
        partition, batches = request.partition, request.batches
        rule = self._rules[partition.rule]
        stop, reason = self._failures(request, answer)
        parts = rule.key is not None or rule.value is not None or rule.headers is not None
        changes = parts or rule.provenance
        if stop < 0 and not changes and all(answer.kept) and not partition.routes:
            for batch in batches:
                batch.is_evaluated = True
            return
        pieces = kept_records(request.rows, answer, stop)
        if rule.provenance:
            tp = partition.topic, partition.partition
            pieces = [with_origin(piece, self._source, tp) for piece in pieces]
        if partition.routes:
            built, refused = self._route(partition, batches, pieces, answer, stop)
            reason = refused or reason
        else:
            built, too_large = _build(partition, batches, pieces)
            if too_large is not None:
                reason = _too_large(partition, partition, *too_large)
        for batch in batches:
            if batch.buffer is not None:
                self._buffers.release(batch.buffer)
        self.has_quiet_progress |= not built
        after = batches[-1].after if reason is None else reason.offset or 0
        partition.replace_queued(at, batches, built, after)
        if reason is not None:
            written = partition.take_before(at + len(built))
            self._stop_at(partition, reason)
            partition.put_last(written)

    def _route(
        self,
        partition: Partition,
        batches: Sequence[PendingBatch],
        pieces: list[RecordBytes],
        answer: EvaluatedRows,
        stop: int,
    ) -> tuple[list[PendingBatch], StopReason | None]:
        """Queue records for further target topics. Returns batches for the first one, and why the
        partition stops at a record that is too large for its topic."""
        topics = answer.topics or [None] * len(answer.kept)
        end = len(topics) if stop < 0 else stop
        names = [topics[number] for number in range(end) if answer.kept[number]]
        reason: StopReason | None = None
        while True:
            found, refused = _build_each(partition, batches, divided(partition, pieces, names))
            if refused is None:
                break
            # No topic gets a record behind it.
            first, reason = refused
            pieces = [piece for piece in pieces if piece.offset < first]
            names = names[: len(pieces)]
        for route in partition.routes:
            if found[route]:
                route.put_last(found[route])
                self._offer(route)
        return found[partition], reason

    def _failures(self, request: _Request, answer: EvaluatedRows) -> tuple[int, StopReason | None]:
        """The number of the record at which the partition stops, or -1, and the reason.

        Others that failed become dead letters, and are dropped here.
        """
        partition = request.partition
        rule = self._rules[partition.rule]
        for number, name in enumerate(answer.topics or ()):
            if name is not None and answer.kept[number] and name not in rule.routes:
                answer.failed.setdefault(number, "topic")
        refused = _refused(partition, request.rows)
        halt = answer.halt
        for number in sorted(answer.failed):
            if 0 <= refused <= number or (halt is not None and halt.number <= number):
                break
            piece, fields, _ = request.rows[number]
            field, why = answer.failed[number], answer.reasons.get(number, "")
            if (schema_id := self._missing_id(fields)) is not None:
                return number, _waits_for_schema(partition, piece.offset, schema_id)
            if rule.on_error != "dead_letter" or self._dead_letters is None:
                return number, _failed(partition, piece.offset, field, why)
            size = self._dead_letters.add(partition, piece, fields, rule, field, why)
            if size:
                topic = self._dead_letters.topic
                return number, _large_dead_letter(partition, piece.offset, field, size, topic)
            answer.kept[number] = False
        if halt is not None and not 0 <= refused <= halt.number:
            return halt.number, _halted(partition, request.rows[halt.number][0].offset, halt)
        return refused, partition.refusal if refused >= 0 else None

    def _missing_id(self, fields: RecordFields) -> int | None:
        """The id of key or value that the target's registry did not have; None without one."""
        missing = self._evaluator.missing_ids
        for part in (fields.key, fields.value) if missing else ():
            if part is not None and part[:1] == b"\0" and len(part) >= _SCHEMA_PREFIX:
                number = int.from_bytes(part[1:_SCHEMA_PREFIX], "big")
                if number in missing:
                    return number
        return None


def with_origin(piece: RecordBytes, cluster: str, tp: tuple[str, int]) -> RecordBytes:
    """The record with headers that name where it came from; `cluster` is an alias."""
    added = provenance_headers(cluster, *tp, piece.offset, wrapped(piece.timestamp))
    return piece._replace(rest=RecordFields(piece.rest).with_added(added))


def _index_of(partition: Partition, batch: PendingBatch) -> int:
    for at, queued in enumerate(partition.queue):
        if queued is batch:
            return at
    return -1


def _rows(partition: Partition, batch: PendingBatch) -> list[Row]:
    """The records to evaluate. Raises IndexError, ValueError or struct.error for corrupt bytes."""
    pieces = repack.pieces_of(batch, keep_append_time=True)
    end, first = batch.end_offset, batch.first
    appended = 1 if batch.header[3] == 2 and batch.header[5] & LOG_APPEND_TIME else 0
    return [
        (piece, RecordFields(piece.rest), appended)
        for piece in pieces
        if piece.offset >= first and (end is None or piece.offset < end)
    ]


def kept_records(rows: Sequence[Row], answer: EvaluatedRows, stop: int = -1) -> list[RecordBytes]:
    """The records that are written, before the one that failed: its number, or -1."""
    kept, keys, values, headers = answer.kept, answer.keys, answer.values, answer.headers
    if keys is None and values is None and headers is None:
        return [
            row[0] for number, row in enumerate(rows) if kept[number] and not 0 <= stop <= number
        ]
    found: list[RecordBytes] = []
    for number, (piece, fields, _) in enumerate(rows):
        if number == stop:
            break
        if not kept[number]:
            continue
        rest = fields.replaced(
            None if keys is None else part_of(keys[number]),
            None if values is None else part_of(values[number]),
            None if headers is None else headers_part_of(headers[number]),
        )
        found.append(RecordBytes(piece.offset, piece.timestamp, piece.attributes, rest))
    return found


def _build(
    partition: Partition, batches: Sequence[PendingBatch], pieces: list[RecordBytes]
) -> tuple[list[PendingBatch], repack.OversizedRecord | None]:
    """Batches of these records. With a record that is too large, those before it."""
    built: list[PendingBatch] = []
    begin = size = 0
    too_large: repack.OversizedRecord | None = None
    for number, piece in enumerate(pieces):
        if number > begin and size + len(piece.rest) > _BATCH_BYTES:
            too_large = repack.build(pieces[begin:number], partition.settings, built, batches[0])
            if too_large is not None:
                break
            begin, size = number, 0
        size += len(piece.rest)
    if too_large is None and pieces[begin:]:
        too_large = repack.build(pieces[begin:], partition.settings, built, batches[0])
    for batch in built:
        batch.is_evaluated = True
        batch.repack_reason = TRANSFORMED
        batch.leader_epoch = batches[-1].leader_epoch
    return built, too_large


def _build_each(
    partition: Partition,
    batches: Sequence[PendingBatch],
    pieces: dict[Partition, list[RecordBytes]],
) -> tuple[dict[Partition, list[PendingBatch]], tuple[int, StopReason] | None]:
    """Batches for each target partition, and the first record that is too large for its topic."""
    found: dict[Partition, list[PendingBatch]] = {}
    refused: tuple[int, StopReason] | None = None
    for member, mine in pieces.items():
        found[member], too_large = _build(member, batches, mine)
        if too_large is not None and (refused is None or too_large[0] < refused[0]):
            refused = too_large[0], _too_large(partition, member, *too_large)
    return found, refused


def _refused(partition: Partition, rows: Sequence[Row]) -> int:
    """The number of the record that a target topic rejected before the slice started again; -1
    for none."""
    refusal = partition.refusal
    if refusal is None or refusal.offset is None:
        return -1
    for number, row in enumerate(rows):
        if row[0].offset >= refusal.offset:
            return number
    return -1


def _failed(partition: Partition, offset: int, field: str, reason: str) -> StopReason:
    """`reason`: that of user code, or empty."""
    why = f"the {field} expression of rule {partition.rule + 1} failed"
    if reason:
        why += f": {reason}; correct the module, or skip the record"
    else:
        why += "; correct the rule, or skip the record (a preview shows Spark's message)"
    return _stop(partition, offset, "transform_failed", why)


def _halted(partition: Partition, offset: int, halt: Halt) -> StopReason:
    """Without a gap, since nobody has to decide: the partition is retried with backoff."""
    sentence = not_replicated(partition.name, offset, halt.reason.rstrip("."))
    return StopReason("faulted", halt.code, sentence, offset)


def _waits_for_schema(partition: Partition, offset: int, schema_id: int) -> StopReason:
    """Without a gap, since nobody has to decide: the partition is retried with backoff."""
    why = (
        f"the record waits for the schema of id {schema_id}, which the schema registry of the "
        "target does not have; it is copied as soon as it is registered there"
    )
    return StopReason(
        "faulted", SCHEMA_MISSING, not_replicated(partition.name, offset, why), offset
    )


def _large_dead_letter(
    partition: Partition, offset: int, field: str, size: int, topic: Partition
) -> StopReason:
    why = (
        f"the {field} expression of rule {partition.rule + 1} failed, and its dead letter has "
        f"{size} bytes, while {topic.topic} accepts {topic.settings.most_bytes}; raise its "
        "max.message.bytes, or skip the record"
    )
    return _stop(partition, offset, "transform_failed", why)


def _too_large(partition: Partition, member: Partition, offset: int, size: int) -> StopReason:
    why = (
        f"after rule {partition.rule + 1} its batch alone has {size} bytes, and "
        f"{member.remote_topic} accepts {member.settings.most_bytes}; raise its "
        "max.message.bytes"
    )
    return _stop(partition, offset, "too_large", why)


def _stop(partition: Partition, offset: int, code: str, why: str) -> StopReason:
    gap = uncopyable("refused", offset, partition.resets, behind=offset + 1)
    return StopReason("faulted", code, not_replicated(partition.name, offset, why), offset, gap)
