"""Heartbeats that were due and not written are counted and said."""

from __future__ import annotations

import pytest

from mirrors.domain.sync.heartbeats import late_sentence, missed_slots


@pytest.mark.parametrize(
    ("before", "slot", "since", "missed"),
    [
        (100, 105, 0, 0),
        (100, 118, 0, 2),
        # It started in between: nothing was due.
        (100, 118, 110, 0),
        # The first heartbeat, and one after an outage.
        (0, 1000, 0, 0),
        (100, 1000, 0, 0),
    ],
)
def test_missed_slots(before: int, slot: int, since: int, missed: int) -> None:
    assert missed_slots(before, slot, every_s=5, running_since=since) == missed


def test_the_sentence_names_the_interval_that_was_kept() -> None:
    assert late_sentence(0, every_s=5, seconds=15) == ""
    found = late_sentence(5, every_s=5, seconds=36)
    assert "5 of the last 7 heartbeats were not written" in found
    assert "every 18 s instead of 5 s" in found
