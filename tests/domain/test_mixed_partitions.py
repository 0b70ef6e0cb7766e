"""Partitions with records of both directions: each record is classified in a failback."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.failback.mixed_partitions import MixedPartition, count_re_reads, verify_mixed
from mirrors.domain.failover.read_verification import ReadRecord
from tests.domain.failback_cases import Log, World, worlds


def seen(log: Log, start: int, end: int) -> list[ReadRecord]:
    return [
        ReadRecord(at, hashlib.blake2b(name.encode()).digest(), 1)
        for at, name in enumerate(log.rows)
        if start <= at < end and name is not None
    ]


def case(world: World, asked: int, place: int) -> MixedPartition:
    forth, back = world.there.runs, world.back.runs
    twins = {run.upstream: run.downstream for run in forth}
    twins |= {run.downstream: run.upstream for run in back}
    end = len(world.a.rows)
    return MixedPartition(
        stands=asked,
        after=seen(world.a, place, end),
        before=seen(world.a, 0, place),
        twins=twins,
        theirs={row.offset: row for row in seen(world.b, 0, len(world.b.rows))},
        again=count_re_reads(asked, place, forth=forth, back=back),
    )


@given(worlds, st.booleans())
def test_each_group_is_led_to_the_right_record_and_what_it_reads_again_is_counted(
    world: World, replay: bool
) -> None:
    world.settle(replay=replay)
    world.back.go(len(world.b.rows))
    for asked in range(len(world.b.rows) + 1):
        place = world.place(asked, undecided=False)
        found = verify_mixed(case(world, asked, place))
        assert found.verdict == "proven", found
        read = set(Log(world.b.rows[:asked]).names())
        assert found.re_reads == len(read & set(world.a.names(place)))


@given(worlds, st.booleans(), st.data())
def test_a_place_that_passes_an_unread_record_or_begins_at_a_read_one_is_found(
    world: World, replay: bool, data: st.DataObject
) -> None:
    world.settle(replay=replay)
    world.back.go(len(world.b.rows))
    asked = data.draw(st.integers(0, len(world.b.rows)))
    place = data.draw(st.integers(0, len(world.a.rows)))
    read = set(Log(world.b.rows[:asked]).names())
    only_here = set(world.a.names()) - set(world.b.names())
    passed = set(Log(world.a.rows[:place]).names()) - read - only_here
    first = next(iter(world.a.names(place)), "")
    wrong = bool(passed) or first in read
    assert (verify_mixed(case(world, asked, place)).verdict == "differs") == wrong


def test_another_record_than_the_maps_name_is_found_and_what_cannot_be_read_proves_nothing() -> (
    None
):
    world = World([3], 2, [True, True])
    world.settle(replay=True)
    world.back.go(len(world.b.rows))
    good = case(world, 1, 1)
    other = {at: row._replace(digest=b"other") for at, row in good.theirs.items()}
    changed = MixedPartition(**{**vars(good), "theirs": other})
    assert "differs from the one that the offset maps name" in verify_mixed(changed).reason
    assert verify_mixed(MixedPartition(**{**vars(good), "theirs": {}})).verdict == "unproven"
    done = verify_mixed(case(world, len(world.b.rows), len(world.a.rows)))
    assert done.reason == "it has read all records"
