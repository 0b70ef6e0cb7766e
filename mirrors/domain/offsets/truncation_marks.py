"""Runs that count no more: marks in the topic of runs, for who reads it in order.

A remote partition that was cut gets other records at the offsets behind; runs that name those would
have them taken for copies. So behind them stands a mark with the end of that moment: what was said
before of offsets from there on counts no more. The runs themselves stay, for by them a person is
told what was lost.

A source that was cut has other records behind its end as well. Once a person lets the flow go on
there, another mark says from which upstream offset on the map begins again; between that and the
first record that is copied nothing else would.

The topic of runs may lose its newest blocks itself, alone. A block says where the run before it
ended (`runs`), and a position where the last one did: by these it is seen that runs are missing.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrors.domain.offsets.run_blocks import follows, read_block
from mirrors.domain.offsets.runs import BlockKey, Run, left_out, pack

_CUT = left_out(".cut")
_AGAIN = left_out(".again")
# Whoever does not know a mark takes it for a note of what was left out, and looks no further.
MARK_BODY = pack(None, [Run(0, 0, 1)]).blocks[0].to_bytes()


def cut_key(topic: str, partition: int, born: str, into: str, end: int) -> BlockKey:
    """The mark of a cut at this offset of the remote partition."""
    return BlockKey(topic, partition, f"{born}{_CUT}", end, into)


def again_key(topic: str, partition: int, born: str, into: str, upstream: int) -> BlockKey:
    """The mark of a map that begins again at this offset of the source."""
    return BlockKey(topic, partition, f"{born}{_AGAIN}", upstream, into)


def is_cut(key: BlockKey) -> bool:
    """Whether it is a mark; its `first` is where the remote partition ended."""
    return key.generation.endswith(_CUT)


def begins_again(key: BlockKey) -> str | None:
    """The generation whose map begins again at `first`; None for any other key."""
    born = key.generation.removesuffix(_AGAIN)
    return born if born != key.generation else None


def cut_off(block: bytes, end: int) -> bytes | None:
    """The block without what it says of offsets from `end` on; None when nothing is left."""
    runs = (run._replace(length=min(run.length, end - run.downstream)) for run in read_block(block))
    return _only(runs, follows(block))


def cut_upstream(block: bytes, end: int) -> bytes | None:
    """The same by offsets of the source."""
    runs = (run._replace(length=min(run.length, end - run.upstream)) for run in read_block(block))
    return _only(runs, follows(block))


def _only(runs: Iterable[Run], before: int | None) -> bytes | None:
    found = pack(None, (run for run in runs if run.length > 0), before).open
    return None if found is None else found.to_bytes()
