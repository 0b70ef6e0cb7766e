"""Runs whose records the target lost: where its partition was cut stands in the topic of runs too.

A remote partition that was cut gets other records at the offsets behind; runs that name those would
have them taken for copies. So behind them, in the topic of runs, stands a mark with the end of that
moment: for who reads in order, what was said before of offsets from there on counts no more. The
runs themselves stay, for by them a person is told what was lost.
"""

from __future__ import annotations

from mirrors.domain.runs import BlockKey, Run, left_out, pack, read_block

_CUT = left_out(".cut")
# Whoever does not know the mark takes it for a note of what was left out, and looks no further.
CUT_BODY = pack(None, [Run(0, 0, 1)]).blocks[0].to_bytes()


def cut_key(topic: str, partition: int, born: str, into: str, end: int) -> BlockKey:
    """The mark of a cut at this offset of the remote partition."""
    return BlockKey(topic, partition, f"{born}{_CUT}", end, into)


def is_cut(key: BlockKey) -> bool:
    """Whether it is a mark; its `first` is where the remote partition ended."""
    return key.generation.endswith(_CUT)


def cut_off(block: bytes, end: int) -> bytes | None:
    """The block without what it says of offsets from `end` on; None when nothing is left."""
    kept = [
        run._replace(length=min(run.length, end - run.downstream))
        for run in read_block(block)
        if run.downstream < end
    ]
    found = pack(None, kept).open
    return None if found is None else found.to_bytes()
