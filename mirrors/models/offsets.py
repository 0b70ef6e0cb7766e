"""The index of offset runs: a cache of two internal topics on the target, rebuilt from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django.db import connection, models

from mirrors.models.flows import Flow

# (map, upstream offset): the two blocks around it are looked for.
Wanted = tuple[int, int]


class Around(NamedTuple):
    """The block at or below an offset, and the one above; None where there is none."""

    first: int | None
    body: bytes | None
    above: bytes | None


class BlockRow(NamedTuple):
    """A block of some map, with less around it than a `RunBlock` has."""

    first: int
    downstream: int
    topic_offset: int
    body: bytes


class RunIndex(models.Model):
    """How far a flow's positions and runs were read, and under which leader what stands before was
    written (-1: not known); another topic id, or another log, means: begin anew."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="run_index")
    positions_id = models.CharField(max_length=64, blank=True)
    positions_next = models.BigIntegerField(default=0)
    positions_epoch = models.IntegerField(default=-1)
    runs_id = models.CharField(max_length=64, blank=True)
    runs_next = models.BigIntegerField(default=0)
    runs_epoch = models.IntegerField(default=-1)
    # Whoever writes raises it: of two that read at once, one begins anew.
    version = models.PositiveBigIntegerField(default=0)
    # All that was committed by then is in; null until the first time.
    as_of = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"runs of flow {self.flow_id}"


class PartitionMap(models.Model):
    """The map of one partition in one generation. `position` is null in one that is not current.

    `into`: the id of the topic that its runs lead to; empty where that is not known. The starts
    are the first offsets that both clusters held at `starts_at`, null where one did not say.
    `map_end`: where the last run below the position ends downstream, as the position says.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="maps")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    generation = models.CharField(max_length=32)
    position = models.BigIntegerField(null=True)
    map_end = models.BigIntegerField(null=True)
    into = models.CharField(max_length=64, blank=True, default="")
    source_start = models.BigIntegerField(null=True)
    target_start = models.BigIntegerField(null=True)
    starts_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("topic", "partition", "id")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition", "generation"], name="one_map_per_generation"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RunBlock(models.Model):
    """One block of runs; `first` and `downstream` are where its first run begins.

    Within a map both rise together: a block is taken out by one that was written later and begins
    at or below it, which a restart that copied twice leaves behind.
    """

    # The constraint below is its index.
    map = models.ForeignKey(
        PartitionMap, on_delete=models.CASCADE, related_name="blocks", db_index=False
    )
    first = models.BigIntegerField()
    downstream = models.BigIntegerField()
    topic_offset = models.BigIntegerField()
    body = models.BinaryField()

    class Meta:
        ordering = ("map", "first")
        constraints = (models.UniqueConstraint(fields=["map", "first"], name="one_block_at"),)
        # For the way back, from downstream to upstream offsets.
        indexes = (models.Index(fields=["map", "downstream"], name="block_by_downstream"),)

    def __str__(self) -> str:
        return f"block at {self.first}"


class OffsetBounds(models.Model):
    """MM2's offset syncs of one partition, for offsets that this flow did not copy.

    Each list holds pairs of a source and a target offset. `proven`: the records at both have the
    same content; `refuted`: they have not. `as_of`: when the topic of syncs was read.
    """

    map = models.OneToOneField(PartitionMap, on_delete=models.CASCADE, related_name="bounds")
    pairs = models.JSONField(default=list)
    proven = models.JSONField(default=list)
    refuted = models.JSONField(default=list)
    as_of = models.DateTimeField()

    def __str__(self) -> str:
        return f"bounds of map {self.map_id}"


def blocks_around(wanted: Iterable[Wanted]) -> dict[Wanted, Around]:
    """For each the block that begins at or below it, and the next one above.

    Two look-ups in the index a row and one question for hundreds, however many blocks a map has.
    The ORM has no way to send values along as a table.
    """
    rows = sorted(set(wanted))
    found: dict[Wanted, Around] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            places = ", ".join(["(CAST(%s AS bigint), CAST(%s AS bigint))"] * len(chunk))
            cursor.execute(_AROUND.replace("@", places), [value for row in chunk for value in row])
            for map_id, upstream, *around in cursor.fetchall():
                found[map_id, upstream] = Around(*around)
    return found


def store_blocks(blocks: Iterable[tuple[int, BlockRow]]) -> None:
    """Blocks, each with the id of its map, into the place of those that begin where they do.

    An index that is built anew has a million of them, and `bulk_create` takes most of its time to
    put its question.
    """
    rows = [(map_id, *block) for map_id, block in blocks]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _STORED):
            chunk = rows[start : start + _STORED]
            places = ", ".join(["(%s, %s, %s, %s, %s)"] * len(chunk))
            cursor.execute(_STORE.replace("@", places), [value for row in chunk for value in row])


# Some builds of SQLite take 999 values a question.
_ROWS, _STORED = 400, 190
_AROUND = """
WITH wanted(map_id, upstream) AS (VALUES @),
found AS (
  SELECT map_id, upstream,
    (SELECT id FROM mirrors_runblock b
     WHERE b.map_id = w.map_id AND b.first <= w.upstream ORDER BY b.first DESC LIMIT 1) AS below,
    (SELECT id FROM mirrors_runblock b
     WHERE b.map_id = w.map_id AND b.first > w.upstream ORDER BY b.first LIMIT 1) AS above
  FROM wanted w
  -- A limit keeps both databases from looking up again what is joined below.
  LIMIT 1000)
SELECT f.map_id, f.upstream, below.first, below.body, above.body
FROM found f
LEFT JOIN mirrors_runblock below ON below.id = f.below
LEFT JOIN mirrors_runblock above ON above.id = f.above
"""
_STORE = """
INSERT INTO mirrors_runblock (map_id, first, downstream, topic_offset, body)
VALUES @
ON CONFLICT (map_id, first) DO UPDATE
SET downstream = excluded.downstream, topic_offset = excluded.topic_offset, body = excluded.body
"""
