from typing import Any, TypeVar

T = TypeVar("T")

def headers(
    memory: memoryview, start: int, stop: int, kind: type[T], most: int, /
) -> tuple[list[T], int]:
    """Headers of consecutive whole batches v2, at most `most`, and where they end."""

def stamp(
    memory: memoryview, at: int, attributes: int, producer_id: int, epoch: int, sequence: int, /
) -> None:
    """Write these fields into the header at `memory[at:]`, and update its checksum."""

def produce_request(
    beginning: bytes, topics: list[tuple[bytes, list[tuple[bytes, Any]]]], /
) -> list[Any]:
    """A produce request: its length, `beginning`, and all topics with their batches."""

def produce_results(
    frame: memoryview, at: int, count: int, key: bytes, kind: type[T], /
) -> list[T] | None:
    """The results of `count` partitions; None if one has a message or record errors."""

def set_addresses(crc32c_value: int, lz4_decompress_safe: int, lz4_compress_fast: int, /) -> None:
    """Set the addresses of these C functions; 0 if unknown."""

def merge(
    addresses: list[int], sizes: list[int], codec: int, acceleration: int, /
) -> bytearray | None:
    """Merge the batches at these addresses into one, after checking their checksums.

    None for anything unusual, damage included, and for a codec that needs another function.
    """
