"""Write batches anew without decoding their records: holes, cuts, merges, splits, other codecs.

A record is walked by its length prefix. Its two deltas (timestamp, offset) and the prefix are
written again; attributes, key, value and headers are copied as the bytes they are, so nothing that
a decoder would refuse or mend (a header name that is not UTF-8, a timestamp of 0) changes.
"""

from __future__ import annotations

import itertools
import struct

from spark_runner.engine.batches import merge as splice
from spark_runner.engine.batches import message_v0_v1
from spark_runner.engine.batches.record_bytes import MOST_TOGETHER, Enough, Piece, assemble, walk
from spark_runner.engine.model.pending_batch import Parcel, Stretch
from spark_runner.engine.model.target_settings import Policy
from spark_runner.kafka_protocol.crc32c import address_of
from spark_runner.kafka_protocol.records import read_header


class Damaged(ValueError):
    """The bytes are no batch; `parcel` is its place in the group."""

    def __init__(self, parcel: int, what: str) -> None:
        super().__init__(what)
        self.parcel = parcel


TooLarge = tuple[int, int]
"""(upstream offset, size of a batch with that record alone)."""


def rebuild(group: list[Parcel], policy: Policy) -> tuple[list[Parcel], TooLarge | None]:
    """New parcels for the records of a group that lie at or behind its first offset.

    With a record that is too large even alone, the parcels are those before it. Raises Damaged, or
    Enough: then the group is to be a shorter one.
    """
    if (spliced := _splice(group, policy)) is not None:
        return [spliced], None
    head = group[0]
    pieces: list[Piece] = []
    inflated = 0
    for number, parcel in enumerate(group):
        try:
            found = _pieces(parcel, policy)
        except (IndexError, ValueError, struct.error) as error:
            raise Damaged(number, str(error) or "a record is cut off") from None
        inflated += sum([len(piece.rest) for piece in found])
        if inflated > MOST_TOGETHER and number:
            raise Enough(number)
        if parcel.until is not None:
            found = [piece for piece in found if piece.offset < parcel.until]
        pieces += [piece for piece in found if piece.offset >= head.first]
    codec = policy.codec
    if codec is None:
        codec = head.header.codec if head.header[3] == 2 else message_v0_v1.codec_of(_bytes(head))
    built: list[Parcel] = []
    too_large = _build(pieces, codec, policy, built, head)
    if built and too_large is None:
        built[-1].after = group[-1].after
    for made in built:
        # Of the last one in all: one that is too new does no harm, one too old does.
        made.epoch = group[-1].epoch
    return built, too_large


def merge(group: list[Parcel], policy: Policy) -> Parcel | None:
    """The group as one batch, looked at and put together in one go.

    None where it cannot be done so; then `rebuild` says why not, and what else can be.
    """
    if not splice.are_whole(group, policy):
        return None
    batch = splice.merge(group, group[0].header.codec if policy.codec is None else policy.codec)
    return None if batch is None else _whole(group, batch, policy)


def _splice(group: list[Parcel], policy: Policy) -> Parcel | None:
    """The whole group as one batch, where only deltas change and it is not too large."""
    if not splice.are_whole(group, policy):
        return None
    head = group[0]
    try:
        batch = splice.splice(group, head.header.codec if policy.codec is None else policy.codec)
    except (IndexError, ValueError, struct.error):
        # Whose bytes they are is found record by record.
        return None
    return None if batch is None else _whole(group, batch, policy)


def _whole(group: list[Parcel], batch: bytearray, policy: Policy) -> Parcel | None:
    """What was made of a whole group; None where that is too large for the target."""
    if policy.most_bytes and len(batch) > policy.most_bytes:
        return None
    head = group[0]
    memory = memoryview(batch)
    made = Parcel(None, memory, 0, address_of(batch), read_header(memory), head.why)
    made.stretches = splice.stretches(group)
    made.first, made.after, made.epoch = head.first, group[-1].after, group[-1].epoch
    return made


def split(parcel: Parcel, policy: Policy) -> list[Parcel]:
    """The parcel at its cuts, each part a batch of its own; the limit is the broker's to tell."""
    try:
        pieces = _pieces(parcel, policy)
    except (IndexError, ValueError) as error:
        raise Damaged(0, str(error) or "a record is cut off") from None
    if parcel.stretches:
        # Built by us before: its own offsets begin at 0.
        pieces = [
            piece._replace(offset=offset)
            for piece, offset in zip(pieces, parcel.offsets(), strict=True)
        ]
    codec = parcel.header.codec if policy.codec is None else policy.codec
    built: list[Parcel] = []
    edges = [0, *parcel.cuts, len(pieces)]
    for start, stop in itertools.pairwise(edges):
        if start < stop:
            built.append(_parcel(pieces[start:stop], assemble(pieces[start:stop], codec), parcel))
    built[-1].after = parcel.after
    for made in built:
        made.epoch = parcel.epoch
    return built


def _bytes(parcel: Parcel) -> memoryview:
    return parcel.memory[parcel.at : parcel.at + parcel.size]


def _pieces(parcel: Parcel, policy: Policy) -> list[Piece]:
    if parcel.header[3] == 2:
        return list(walk(_bytes(parcel), parcel.header, keep_append_time=policy.keep_append_time))
    return message_v0_v1.pieces(_bytes(parcel))


def _build(
    pieces: list[Piece], codec: int, policy: Policy, built: list[Parcel], head: Parcel
) -> TooLarge | None:
    """Append parcels; halves what is too large until a single record is."""
    if not pieces:
        return None
    batch = assemble(pieces, codec)
    if policy.most_bytes and len(batch) > policy.most_bytes:
        if len(pieces) == 1:
            return pieces[0].offset, len(batch)
        middle = len(pieces) // 2
        return _build(pieces[:middle], codec, policy, built, head) or _build(
            pieces[middle:], codec, policy, built, head
        )
    built.append(_parcel(pieces, batch, head))
    return None


def _parcel(pieces: list[Piece], batch: bytearray, head: Parcel) -> Parcel:
    memory = memoryview(batch)
    parcel = Parcel(None, memory, 0, address_of(batch), read_header(memory), head.why)
    parcel.stretches = _stretches(pieces)
    parcel.first = pieces[0].offset
    parcel.after = pieces[-1].offset + 1
    return parcel


def _stretches(pieces: list[Piece]) -> tuple[Stretch, ...]:
    """Where the upstream offsets of consecutive records are consecutive."""
    first = expected = pieces[0].offset
    if pieces[-1].offset - first == len(pieces) - 1:
        return ((first, len(pieces)),)
    found: list[Stretch] = []
    for piece in pieces:
        if piece.offset != expected:
            found.append((first, expected - first))
            first = piece.offset
        expected = piece.offset + 1
    found.append((first, expected - first))
    return tuple(found)
