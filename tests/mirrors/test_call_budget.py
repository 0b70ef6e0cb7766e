"""Budget: one deadline for many calls to Kafka."""

from __future__ import annotations

from mirrors.services.clock import CALL_S, Budget


def test_a_call_gets_what_is_left_and_no_more_than_its_share() -> None:
    assert 90 < Budget(100).left_s <= 100
    assert Budget(100, call_s=CALL_S).left_s == CALL_S


def test_a_call_that_is_made_at_all_has_time_to_be_answered() -> None:
    assert Budget(0).left_s == 0.5
    assert Budget(-5, call_s=CALL_S).left_s == 0.5
