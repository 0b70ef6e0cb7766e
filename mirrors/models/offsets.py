"""The index of offset runs: a cache of two internal topics on the target, rebuilt from them."""

from __future__ import annotations

from collections.abc import Iterable

from django.db import connection, models

from mirrors.models.flows import Flow

# (map, upstream offset): the two blocks around it are looked for.
Wanted = tuple[int, int]


class RunIndex(models.Model):
    """How far a flow's positions and runs were read; another topic id means: begin anew."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="run_index")
    positions_id = models.CharField(max_length=64, blank=True)
    positions_next = models.BigIntegerField(default=0)
    runs_id = models.CharField(max_length=64, blank=True)
    runs_next = models.BigIntegerField(default=0)
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
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="maps")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    generation = models.CharField(max_length=32)
    position = models.BigIntegerField(null=True)
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


def blocks_around(wanted: Iterable[Wanted]) -> dict[Wanted, tuple[int | None, int | None]]:
    """For each the id of the block that begins at or below it, and of the next one above.

    Two look-ups in the index a row, however many blocks a map has. The ORM has no way to send
    values along as a table.
    """
    rows = sorted(set(wanted))
    found: dict[Wanted, tuple[int | None, int | None]] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            places = ", ".join(["(CAST(%s AS bigint), CAST(%s AS bigint))"] * len(chunk))
            cursor.execute(_AROUND.replace("@", places), [value for row in chunk for value in row])
            for map_id, upstream, below, above in cursor.fetchall():
                found[map_id, upstream] = (below, above)
    return found


_ROWS = 400
_AROUND = """
WITH wanted(map_id, upstream) AS (VALUES @)
SELECT map_id, upstream,
  (SELECT id FROM mirrors_runblock b
   WHERE b.map_id = w.map_id AND b.first <= w.upstream ORDER BY b.first DESC LIMIT 1),
  (SELECT id FROM mirrors_runblock b
   WHERE b.map_id = w.map_id AND b.first > w.upstream ORDER BY b.first LIMIT 1)
FROM wanted w
"""
