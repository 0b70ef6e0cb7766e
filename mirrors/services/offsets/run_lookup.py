"""Runs of a map by offsets of either side, from stored rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypedDict

from mirrors.domain.offsets.run_blocks import first_run, follows, read_block
from mirrors.domain.offsets.runs import Run
from mirrors.models import PartitionMap, RunBlock

_BLOCKS = 50


def overlapping_runs(map_id: int, side: str, start: int, end: int) -> Iterator[Run]:
    """Runs of a map that hold an offset of [start, end) on one side, in rising order."""
    member = "upstream" if side == "first" else "downstream"
    blocks = RunBlock.objects.filter(map=map_id)
    first = blocks.filter(**{f"{side}__lte": start}).order_by(f"-{side}")[:1]
    later = blocks.filter(**{f"{side}__gt": start, f"{side}__lt": end}).order_by(side)
    for rows in (first, later.iterator(chunk_size=_BLOCKS)):
        for block in rows:
            for run in read_block(bytes(block.body)):
                if getattr(run, member) < end and getattr(run, member) + run.length > start:
                    yield run


def runs_until(offset: int, member: str, runs: Iterable[Run]) -> Iterator[Run]:
    for run in runs:
        if getattr(run, member) >= offset:
            return
        yield run


class NeighborRuns(TypedDict, total=False):
    below: Run | None
    above: Run | None
    follows: int | None


def neighbor_runs(known: PartitionMap, side: str, offset: int) -> NeighborRuns:
    """The last run that begins at or below this offset on one side, and the next one; and where the
    run before that ended."""
    member = "upstream" if side == "first" else "downstream"
    blocks = RunBlock.objects.filter(map=known)
    block = blocks.filter(**{f"{side}__lte": offset}).order_by(f"-{side}").first()
    below: Run | None = None
    for run in read_block(bytes(block.body)) if block is not None else ():
        if getattr(run, member) > offset:
            return {"below": below, "above": run}
        below = run
    after = blocks.filter(**{f"{side}__gt": offset}).order_by(side).first()
    if after is None:
        return {"below": below, "above": None, "follows": known.map_end}
    body = bytes(after.body)
    return {"below": below, "above": first_run(body), "follows": follows(body)}
