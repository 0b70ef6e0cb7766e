"""MM2's offset syncs: written and read as in Java."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.offsets.mm2_syncs import Sync
from tests.domain.cases import golden, laws
from tests.domain.mm2_syncs import SyncIndex, SyncWriter

TRANSLATIONS = golden("offset_translation")["cases"]
WRITES = golden("offset_sync_writer")["cases"]


def syncs(entries: list[Any]) -> Iterator[Sync]:
    for entry in entries:
        if isinstance(entry, dict):
            for upstream in range(entry["from"], entry["to"] + 1, entry["step"]):
                yield Sync(upstream, upstream + entry["delta"])
        else:
            yield Sync(*entry)


@pytest.mark.parametrize("case", TRANSLATIONS, ids=lambda case: case["name"])
def test_the_index_of_syncs_is_javas(case: dict[str, Any]) -> None:
    index = SyncIndex()
    for sync in syncs(case["initial"]):
        index.add(sync, keep_history=not case["must_read_to_end"])
    for sync in syncs(case["then"]):
        index.add(sync)
    assert [[slot, *sync] for slot, sync in index.distinct()] == case["slots"]
    for upstream, downstream in case["translate"]:
        # Java answers nothing until it has read the topic to its end once; that is its reader's.
        if "no start" not in case["name"]:
            assert index.translate(upstream) == downstream


@pytest.mark.parametrize("case", WRITES, ids=lambda case: case["name"])
def test_the_syncs_that_are_sent_are_javas(case: dict[str, Any]) -> None:
    writer = SyncWriter(case["offset_lag_max"])
    flying = 0
    for step in case["steps"]:
        what, *rest = step["do"]
        if what == "ack":
            topic, _, partition = rest[0].rpartition("-")
            sent = writer.acknowledged((topic, int(partition)), Sync(*rest[1:]))
        elif what == "commit":
            sent = writer.committed()
        else:
            sent = writer.arrived(flying)
            flying = 0
        flying += len(sent)
        told = sorted([f"{topic}-{partition}", *sync] for (topic, partition), sync in sent.items())
        assert told == step["sends"], step
        assert (len(writer.pending), len(writer.delayed)) == (step["pending"], step["delayed"])
        if not case["name"].startswith(("at most", "a newer")):
            flying = 0 if not writer.arrived(flying) else flying


@laws
@given(st.lists(st.integers(1, 300), min_size=1, max_size=200))
def test_syncs_in_the_index_are_neither_too_old_nor_too_near(steps: list[int]) -> None:
    index, upstream = SyncIndex(), 0
    for step in steps:
        upstream += step
        index.add(Sync(upstream, upstream))
    entries = list(enumerate(index.slots))
    for i, newer in entries:
        for j, older in entries[i + 1 :]:
            if newer is not older:
                assert newer.upstream <= older.upstream + 2**j - 2**i
                assert newer.upstream >= older.upstream + 2 ** max(i - 2, 0)


def expired(upstreams: Iterable[int]) -> int:
    """The most entries of the index that one insert threw out."""
    index, most = SyncIndex(), 0
    for upstream in upstreams:
        before = {sync for _, sync in index.distinct()}
        index.add(Sync(upstream, upstream))
        most = max(most, len(before - {sync for _, sync in index.distinct()}))
    return most


@pytest.mark.parametrize("step", [1, 2, 7, 100, 1 << 20])
def test_evenly_spaced_syncs_expire_one_by_one(step: int) -> None:
    for first in range(30):
        assert expired(range(first, first + 100 * step, step)) <= 1


@pytest.mark.parametrize("bits", range(1, 10))
def test_unevenly_spaced_syncs_expire_a_few_at_once(bits: int) -> None:
    chance, upstream, upstreams = random.Random(bits), 0, []
    for _ in range(300):
        upstream += chance.randrange(1, 2**bits)
        upstreams.append(upstream)
    assert expired(upstreams) <= bits + 2


def test_syncs_that_were_dropped_now_and_then_expire_two_at_most() -> None:
    chance, upstream, upstreams = random.Random(3), 0, []
    for _ in range(300):
        upstream += chance.choice([100, 200])
        upstreams.append(upstream)
    assert expired(upstreams) <= 2
