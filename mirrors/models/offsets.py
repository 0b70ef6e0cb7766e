"""The index of offset runs: a cache of two internal topics on the target, rebuildable from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

from django.db import connection, models

from mirrors.models.access.grants import Owned, VisibleManager
from mirrors.models.flows import Flow

# (map id, upstream offset) whose neighboring blocks are wanted.
Wanted = tuple[int, int]


class NeighborBlocks(NamedTuple):
    """The block at or below an offset, and the one above; None where there is none."""

    first: int | None
    body: bytes | None
    above: bytes | None


class BlockRow(NamedTuple):
    """The columns of a `RunBlock` without its map."""

    first: int
    downstream: int
    topic_offset: int
    body: bytes


class RunIndex(Owned):
    """How far a flow's positions and runs topics were read, with the leader epoch of what was read.

    Epoch -1 means unknown. After another topic id or a truncation the index starts from scratch.
    """

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="run_index")
    positions_id = models.CharField(max_length=64, blank=True)
    positions_next = models.BigIntegerField(default=0)
    positions_epoch = models.IntegerField(default=-1)
    runs_id = models.CharField(max_length=64, blank=True)
    runs_next = models.BigIntegerField(default=0)
    runs_epoch = models.IntegerField(default=-1)
    # Each writer raises it: of two concurrent readers, one starts over.
    version = models.PositiveBigIntegerField(default=0)
    # The index holds everything committed by then; null until the first refresh.
    as_of = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"runs of flow {self.flow_id}"


class PolicyMaps(VisibleManager):
    """Maps into the topics that the replication policy names, without those of routes."""

    def get_queryset(self) -> models.QuerySet[Any]:
        return super().get_queryset().filter(route="")


class PartitionMap(Owned):
    """The offset map of one partition in one generation.

    - `route`: the target topic, if a rule names it; empty for the topic that the policy names. Maps
      of routes are current while `position` is set, too; only `with_routes` returns them.
    - `position`: null in a generation that is not current.
    - `into`: topic id of the remote topic of its runs; empty where unknown.
    - `source_start`, `target_start`: log start offsets at `starts_at`, null where unknown.
    - `map_end`: downstream end of the last run below the position, as the position records it.
    - `known_since`: when it was first read; null for rows of earlier versions.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="maps")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    generation = models.CharField(max_length=32)
    position = models.BigIntegerField(null=True)
    map_end = models.BigIntegerField(null=True)
    into = models.CharField(max_length=64, blank=True, default="")
    route = models.CharField(max_length=255, blank=True, default="", db_default="")
    source_start = models.BigIntegerField(null=True)
    target_start = models.BigIntegerField(null=True)
    starts_at = models.DateTimeField(null=True)
    known_since = models.DateTimeField(null=True, auto_now_add=True)
    # The range whose records comparisons found the same (VerifiedRange); null before the first one.
    verified_first = models.BigIntegerField(null=True)
    verified_end = models.BigIntegerField(null=True)
    verified_at = models.DateTimeField(null=True)
    compared_end = models.BigIntegerField(null=True)
    differences = models.PositiveIntegerField(default=0)

    objects: ClassVar[VisibleManager] = PolicyMaps()
    with_routes = VisibleManager()

    class Meta:
        ordering = ("topic", "partition", "id")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition", "generation"], name="one_map_per_generation"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RuleStart(Owned):
    """From which source offset on a partition is copied with the present rule of its topic.

    Records below `offset` may have been copied with another rule. `when` is the time of the report
    of that offset; the rule was changed shortly before.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="rule_starts")
    topic = models.CharField(max_length=255)
    partition = models.PositiveIntegerField()
    offset = models.BigIntegerField()
    when = models.DateTimeField()

    class Meta:
        ordering = ("topic", "partition")
        constraints = (
            models.UniqueConstraint(
                fields=["flow", "topic", "partition"], name="one_rule_start_per_partition"
            ),
        )

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} from {self.offset}"


class RunBlock(Owned):
    """One block of runs; `first` and `downstream` are the offsets of its first run.

    Within a map both rise together. A restart that copied records twice writes a later block that
    begins at or below an earlier one; the earlier one is then removed.
    """

    parent = "map"

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
        # For reverse translation, from downstream to upstream offsets.
        indexes = (models.Index(fields=["map", "downstream"], name="block_by_downstream"),)

    def __str__(self) -> str:
        return f"block at {self.first}"


class OffsetBounds(Owned):
    """MM2's offset syncs of one partition, for offsets that this flow did not copy.

    Each list holds pairs of a source and a target offset. `proven`: the records at both have the
    same content. `refuted`: they differ. `as_of`: when the offset-syncs topic was read.
    """

    parent = "map"

    map = models.OneToOneField(PartitionMap, on_delete=models.CASCADE, related_name="bounds")
    pairs = models.JSONField(default=list)
    proven = models.JSONField(default=list)
    refuted = models.JSONField(default=list)
    as_of = models.DateTimeField()

    def __str__(self) -> str:
        return f"bounds of map {self.map_id}"


def neighbor_blocks(wanted: Iterable[Wanted]) -> dict[Wanted, NeighborBlocks]:
    """For each offset: the block that begins at or below it, and the next one above.

    Two index look-ups per row, hundreds of rows per query, whatever the number of blocks. The ORM
    cannot pass values as a table.
    """
    rows = sorted(set(wanted))
    found: dict[Wanted, NeighborBlocks] = {}
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _ROWS):
            chunk = rows[start : start + _ROWS]
            places = ", ".join(["(CAST(%s AS bigint), CAST(%s AS bigint))"] * len(chunk))
            cursor.execute(_AROUND.replace("@", places), [value for row in chunk for value in row])
            for map_id, upstream, *around in cursor.fetchall():
                found[map_id, upstream] = NeighborBlocks(*around)
    return found


def store_blocks(blocks: Iterable[tuple[int, BlockRow]]) -> None:
    """Insert blocks, each with the id of its map, or replace those with the same first offset.

    A rebuilt index has a million blocks, and `bulk_create` spends most of its time building SQL.
    """
    rows = [(map_id, *block) for map_id, block in blocks]
    with connection.cursor() as cursor:
        for start in range(0, len(rows), _STORED):
            chunk = rows[start : start + _STORED]
            places = ", ".join(["(%s, %s, %s, %s, %s)"] * len(chunk))
            cursor.execute(_STORE.replace("@", places), [value for row in chunk for value in row])


# Some builds of SQLite accept at most 999 parameters per query.
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
  -- The limit keeps both databases from repeating these look-ups in the joins below.
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


class PositionChange(Owned):
    """A request to move a stopped flow's positions: previewed by a worker, then perhaps applied.

    `rows`: a `PositionMove` for each selected partition. `digest` identifies them.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="position_changes")
    topics = models.TextField()
    partition = models.PositiveIntegerField(null=True)
    to = models.CharField(max_length=64)
    requested_by = models.CharField(max_length=150)
    requested_at = models.DateTimeField()
    previewed_at = models.DateTimeField(null=True)
    digest = models.CharField(max_length=64, blank=True)
    rows = models.JSONField(default=list)
    applied_by = models.CharField(max_length=150, blank=True)
    why = models.CharField(max_length=500, blank=True)
    applied_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"position change {self.pk} of flow {self.flow_id}"

    @property
    def state(self) -> str:
        """requested, previewed, applying, applied or failed."""
        if self.failed_at is not None:
            return "failed"
        if self.applied_at is not None:
            return "applied"
        if self.applied_by:
            return "applying"
        return "requested" if self.previewed_at is None else "previewed"

    @property
    def moves(self) -> list[dict[str, Any]]:
        """The rows that change a position."""
        return [one for one in self.rows if one["effect"] in ("copied_again", "skipped")]

    @property
    def copied_again(self) -> int:
        return self._offsets("copied_again")

    @property
    def skipped(self) -> int:
        return self._offsets("skipped")

    @property
    def refused(self) -> int:
        return sum(one["effect"] == "refused" for one in self.rows)

    def _offsets(self, effect: str) -> int:
        return sum(one["offsets"] for one in self.rows if one["effect"] == effect)

    @property
    def summary(self) -> str:
        """What the move does, in one sentence."""
        return (
            f"Positions that move: {len(self.moves)}. Offsets: {self.copied_again} are copied "
            f"again, {self.skipped} are skipped. Partitions that cannot move: {self.refused}."
        )
