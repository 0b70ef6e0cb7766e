"""How well a sample of a topic compresses, as it is and with another codec or larger batches."""

from __future__ import annotations

import dataclasses
from typing import Literal

# The codec that is compared with the one in use, and the size of a large batch before compression.
CODEC = "zstd"
LARGE_BATCH_BYTES = 128 << 10
# A smaller sample says nothing about the topic.
_LEAST_RECORDS = 100
_LEAST_BYTES = 16 << 10
# A smaller saving is no advice; nor is a second change that adds less.
_LEAST_SHARE = 0.10
_LEAST_GAIN = 0.05
Change = Literal["codec", "batches", "both"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompressionSample:
    """Whole batches of one partition, and their size in bytes when they are built differently.

    - `codec`: of most of the bytes. `bytes`: as they are, with batch headers.
    - `codec_bytes`: the same batches with `CODEC`. `batches_bytes`: batches of
      `LARGE_BATCH_BYTES` with their own codec. `both_bytes`: both.
    """

    codec: str
    records: int
    batches: int
    bytes: int
    codec_bytes: int
    batches_bytes: int
    both_bytes: int


@dataclasses.dataclass(frozen=True)
class Saving:
    """The change with the best ratio of effect to effort; `share` is 0 to 1 of the bytes."""

    change: Change
    share: float


def best_saving(sample: CompressionSample) -> Saving | None:
    """None if the sample is too small, or if no change saves a tenth."""
    if sample.records < _LEAST_RECORDS or sample.bytes < _LEAST_BYTES:
        return None
    codec, batches, both = (
        1 - size / sample.bytes
        for size in (sample.codec_bytes, sample.batches_bytes, sample.both_bytes)
    )
    single = Saving("codec", codec) if codec >= batches else Saving("batches", batches)
    found = single if both < single.share + _LEAST_GAIN else Saving("both", both)
    return found if found.share >= _LEAST_SHARE else None
