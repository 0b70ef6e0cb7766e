"""What limits a flow, from the limits of its slices, and the sentences about it."""

from __future__ import annotations

import pytest

from mirrors.domain.flows.speed_limits import (
    FAR_MS,
    NAMES,
    FlowSpeed,
    Name,
    Part,
    Side,
    SliceSpeed,
    SpeedLimit,
    advice,
    state,
    summarize,
)
from spark_runner.engine.model.distance import FAR_S


def limited(
    name: Name, share: float = 0.92, *, side: Side = "", part: Part = "", rtt: float = 100.0
) -> SliceSpeed:
    limit = SpeedLimit(
        name=name,
        share=share,
        seconds=30,
        side=side,
        part=part,
        in_flight_bytes=16_000_000,
        window_bytes=16_000_000,
        response_ms=210.0,
    )
    return SliceSpeed(limit=limit, source_rtt_ms=rtt, target_rtt_ms=rtt)


def said(speed: SliceSpeed) -> str:
    return state(speed, source="east", target="west")


def cure(speed: SliceSpeed) -> str:
    return advice(speed, source="east", target="west")


def test_a_full_target_window_is_stated_with_its_figures() -> None:
    speed = limited("target_window", side="target", part="bytes")
    assert said(speed) == (
        "Speed limit: target window: 16 MB in flight to west, full for 92% of the last 30 s "
        "(RTT 100 ms, a request takes 210 ms)."
    )
    assert "tasks.max" in cure(speed)


@pytest.mark.parametrize(
    ("part", "rtt", "words"),
    [
        ("memory", 100.0, "producer.buffer.memory"),
        ("batches", 100.0, "delivery=exactly_once"),
        ("requests", 100.0, "producer.max.in.flight.requests.per.connection"),
        ("requests", 0.3, "The brokers of west acknowledge late"),
    ],
)
def test_the_cure_of_a_full_target_window_depends_on_what_of_it_is_used_up(
    part: Part, rtt: float, words: str
) -> None:
    assert words in cure(limited("target_window", side="target", part=part, rtt=rtt))


def test_each_limit_has_a_sentence_and_a_cure() -> None:
    texts = set()
    for name in NAMES:
        speed = limited(name, side="source")
        texts.add(said(speed))
        assert bool(cure(speed)) == (name != "nothing")
    assert len(texts) == len(NAMES)
    assert said(SliceSpeed()) == cure(SliceSpeed()) == ""


def test_a_near_source_is_slow_and_a_far_one_needs_more_in_flight() -> None:
    assert "disks" in cure(limited("source_window", side="source", rtt=0.4))
    assert "consumer.fetch.max.bytes" in cure(limited("source_window", side="source"))
    assert FAR_MS == FAR_S * 1000


def test_the_limit_of_most_slices_is_the_flow_s_and_nothing_only_if_all_have_caught_up() -> None:
    link, idle = limited("link", 0.6, side="target", rtt=101.5), limited("nothing", rtt=0.5)
    found = summarize([idle, link, limited("link", 0.8), limited("commit", 0.9), SliceSpeed()])
    assert found.limit is not None
    assert (found.limit.name, found.limit.share) == ("link", 0.8)
    assert (found.slices, found.limited_slices) == (4, 2)
    assert found.target_rtt_ms == 101.5
    caught_up = summarize([idle, idle])
    assert caught_up.limit is not None
    assert caught_up.limit.name == "nothing"
    # A slice that was not measured may be behind: nothing is claimed of the flow.
    assert summarize([idle, SliceSpeed()]).limit is None
    assert summarize([]) == FlowSpeed() == FlowSpeed.from_dict({})
