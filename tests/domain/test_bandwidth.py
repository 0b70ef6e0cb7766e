"""A flow's bandwidth limit: the mean holds for any response; no quota is left unused."""

from __future__ import annotations

import random

import pytest

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.flows.bandwidth import TokenBucket, allocate, is_live_edit, limit_of
from mirrors.domain.specs import FlowSettings


def test_the_mean_holds_whatever_each_reply_brings() -> None:
    chance = random.Random(1)
    bucket, now, taken = TokenBucket(1_000_000, 0.0), 0.0, 0
    while now < 60:
        now = max(now + 0.001, bucket.opens_at(now))
        size = chance.choice([1, 300, 250_000, 3_000_000])
        bucket.take(size, now)
        taken += size
    assert 57_000_000 < taken < 64_000_000


def test_a_pause_earns_half_a_second_and_no_more() -> None:
    bucket = TokenBucket(1000, 0.0)
    bucket.take(500, 100.0)
    assert bucket.opens_at(100.0) == 100.0
    bucket.take(100, 100.0)
    assert bucket.opens_at(100.0) == pytest.approx(100.1)


def test_another_rate_holds_at_once_and_none_is_no_limit() -> None:
    bucket = TokenBucket(1000, 0.0)
    bucket.take(10_000, 1.0)
    bucket.set_rate(1_000_000, 1.0)
    assert bucket.opens_at(1.0) < 1.02
    bucket.set_rate(None, 1.0)
    assert bucket.opens_at(1.0) == 1.0
    assert bucket.most(16 << 20) == 16 << 20


def test_one_request_asks_for_a_part_of_a_second() -> None:
    assert TokenBucket(1_000_000, 0.0).most(16 << 20) == 250_000
    assert TokenBucket(1000, 0.0).most(16 << 20) == 4096


def test_idle_slices_leave_their_part_to_those_that_are_held_back() -> None:
    shares = allocate(1_000_000, {0: None, 1: 0.0, 2: 0.0, 3: 0.0})
    assert shares[0] > 900_000
    assert min(shares.values()) >= 25_000, "so that a slice that wakes up begins at once"


def test_slices_that_are_all_held_back_get_the_same() -> None:
    assert set(allocate(900_000, {0: None, 1: None, 2: None}).values()) == {300_000}


def test_all_that_is_dealt_is_never_more_than_the_limit() -> None:
    chance = random.Random(2)
    for _ in range(300):
        limit = chance.randrange(1000, 10**9)
        needs = {
            index: chance.choice([None, 0.0, limit / 3, limit * 2.0])
            for index in range(chance.randrange(1, 40))
        }
        assert sum(allocate(limit, needs).values()) <= limit
    assert allocate(1000, {}) == {}


def test_the_limit_is_a_setting_in_bytes_a_second() -> None:
    assert FlowSettings.from_properties({}).bandwidth_limit_bytes is None
    assert limit_of({"bandwidth.limit.bytes": " 5000 "}) == 5000
    assert limit_of({}) is None
    with pytest.raises(InvalidSettings, match="1000 to"):
        FlowSettings.from_properties({"bandwidth.limit.bytes": "999"})


def test_an_edit_of_the_limit_alone_restarts_nothing() -> None:
    before = {"topics": "a", "bandwidth.limit.bytes": "5000"}
    assert is_live_edit(before, {"topics": "a"})
    assert is_live_edit(before, {"topics": "a", "bandwidth.limit.bytes": "6000"})
    assert not is_live_edit(before, {"topics": "b", "bandwidth.limit.bytes": "5000"})
    night = {"run.schedule": "0 22 * * *", "run.window.minutes": "480"}
    assert is_live_edit(before, {**before, **night, "run.schedule.zone": "Europe/Berlin"})
    assert not is_live_edit(before, {**before, **night, "run.until": "end"})
