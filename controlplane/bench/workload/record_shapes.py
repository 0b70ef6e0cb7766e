"""What the records of one data set look like: sizes, codec, source batches; and a pool of them."""

from __future__ import annotations

import dataclasses
import random

from spark_runner.kafka_protocol.compression import NAMES
from spark_runner.kafka_protocol.records import Record, encode_batch

HEADER_NAME = "trace"
KEY_BYTES = 8
HEADER_BYTES = 8
OVERHEAD = KEY_BYTES + len(HEADER_NAME) + HEADER_BYTES
POOL = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """`record_bytes` counts key, value and header; `batch_bytes` is a batch before compression."""

    record_bytes: int = 1_024
    codec: str = "lz4"
    batch_bytes: int = 65_536

    @property
    def records_per_batch(self) -> int:
        # A record costs about seven bytes more on the wire than what a person counts.
        return max(1, self.batch_bytes // (self.record_bytes + 7))

    @property
    def name(self) -> str:
        starved = "" if self.batch_bytes >= 65_536 else f"-{self.batch_bytes}"
        return f"{self.record_bytes}-{self.codec}{starved}"


def fields(shape: Shape, dice: random.Random) -> tuple[bytes, bytes, bytes]:
    """Key, value and header of one record; half of the value is random, half is text that repeats.

    The two halves alternate in stretches of 32 bytes, as fields of a real record would.
    """
    size = shape.record_bytes - OVERHEAD
    value = b"".join(
        dice.randbytes(32) + b'"amount":1234,"currency":"EUR",' for _ in range(size // 63)
    )
    value += dice.randbytes((size - len(value)) // 2)
    return dice.randbytes(KEY_BYTES), value.ljust(size, b"="), dice.randbytes(HEADER_BYTES)


def build_pool(shape: Shape, *, size: int = POOL, seed: int = 1) -> list[bytearray]:
    """Distinct batches, encoded and compressed; timestamps run from 0 in steps of 1 ms."""
    dice = random.Random(seed)
    codec = NAMES.index(shape.codec)
    return [_batch(shape, codec, dice) for _ in range(size)]


def _batch(shape: Shape, codec: int, dice: random.Random) -> bytearray:
    rows = []
    for number in range(shape.records_per_batch):
        key, value, header = fields(shape, dice)
        rows.append(Record(number, number, key, value, ((HEADER_NAME.encode(), header),)))
    return encode_batch(rows, codec=codec)
