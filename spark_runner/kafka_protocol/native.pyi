from spark_runner.kafka_protocol.batch_header import Header
from spark_runner.kafka_protocol.produce import Answer
from spark_runner.kafka_protocol.tcp_stream import Buffer

def headers(
    memory: memoryview, start: int, stop: int, kind: type[Header], most: int, /
) -> tuple[list[Header], int]:
    """Those of at most so many whole batches v2 in a row, and where the row ends."""

def stamp(
    memory: memoryview, at: int, attributes: int, producer_id: int, epoch: int, sequence: int, /
) -> None:
    """Write these into the header at `memory[at:]`, with the checksum that belongs to them."""

def request(
    beginning: bytes, topics: list[tuple[bytes, list[tuple[bytes, Buffer]]]], /
) -> list[Buffer]:
    """A produce request: its length, `beginning`, and all topics with the batches as they are."""

def answers(
    frame: memoryview, at: int, count: int, key: bytes, kind: type[Answer], /
) -> list[Answer] | None:
    """The plain answers of so many partitions; None where one has more to say."""

def learn(crc32c_value: int, lz4_decompress_safe: int, lz4_compress_fast: int, /) -> None:
    """Where the C functions of these names are; 0 for one that is not there."""

def merge(
    addresses: list[int], sizes: list[int], codec: int, acceleration: int, /
) -> bytearray | None:
    """The whole batches at these addresses as one, their checksums looked at.

    None where anything is unusual, damage included, and where a codec needs another function.
    """
