"""Truncation marks: records in the runs topic that invalidate earlier runs, for in-order readers.

- A truncated remote partition gets other records at its higher offsets, so old runs would take
  those for copies. A mark with the truncation's end follows the runs. Earlier runs of offsets from
  there on are then invalid. The runs stay, because they show what was lost.
- A truncated source has other records after its end too. When an operator resumes the flow there,
  another mark gives the source offset from which the map begins again. No other record gives it
  before the first copy.
- The runs topic itself may lose its newest blocks. A block holds the end of the run before it
  (`runs`), and a position the end of the last one. By these, missing runs are detected.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.offsets.run_blocks import follows, read_block
from mirrors.domain.offsets.runs import BlockKey, Run, pack, skipped_generation

_CUT = skipped_generation(".cut")
_AGAIN = skipped_generation(".again")
# A reader that does not know marks takes it for a note of skipped records and ignores it.
MARK_BODY = pack(None, [Run(0, 0, 1)]).blocks[0].to_bytes()


def truncation_key(topic: str, partition: int, born: str, into: str, end: int) -> BlockKey:
    """Return the key of a truncation mark at this offset of the remote partition."""
    return BlockKey(topic, partition, f"{born}{_CUT}", end, into)


def restart_key(topic: str, partition: int, born: str, into: str, upstream: int) -> BlockKey:
    """Return the key of the mark of a map that begins again at this source offset."""
    return BlockKey(topic, partition, f"{born}{_AGAIN}", upstream, into)


def is_truncation(key: BlockKey) -> bool:
    """Return whether it is a truncation mark; its `first` is the end of the remote partition."""
    return key.generation.endswith(_CUT)


def restarted_generation(key: BlockKey) -> str | None:
    """Return the generation whose map begins again at `first`; None for any other key."""
    born = key.generation.removesuffix(_AGAIN)
    return born if born != key.generation else None


def truncate_downstream(block: bytes, end: int) -> bytes | None:
    """Return the block without target offsets from `end` on; None if nothing is left."""
    runs = (run._replace(length=min(run.length, end - run.downstream)) for run in read_block(block))
    return _only(runs, follows(block))


def truncate_upstream(block: bytes, end: int) -> bytes | None:
    """Return the block without source offsets from `end` on; None if nothing is left."""
    runs = (run._replace(length=min(run.length, end - run.upstream)) for run in read_block(block))
    return _only(runs, follows(block))


def _only(runs: Iterable[Run], before: int | None) -> bytes | None:
    found = pack(None, (run for run in runs if run.length > 0), before).open
    return None if found is None else found.to_bytes()
