"""Two sessions of the suite: nothing is left out or run twice, and who is alone is alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tests import side_by_side
from tests.turns import Turns

TESTS = Path(__file__).parent


def test_every_folder_is_in_exactly_one_share() -> None:
    first, second = side_by_side.shares()
    assert set(first) & set(second) == set()
    files = [path.relative_to(TESTS.parent) for path in TESTS.rglob("test_*.py")]
    assert {"/".join(path.parts[:2]) for path in files} == {*first, *second}


@pytest.mark.parametrize(
    ("codes", "together"),
    [((0, 0), 0), ((0, 1), 1), ((2, 0), 2), ((0, 5), 0), ((5, 1), 1), ((5, 5), 5), ((0, -9), -9)],
)
def test_both_must_pass_and_one_of_them_may_have_nothing_to_run(
    codes: tuple[int, int], together: int
) -> None:
    assert side_by_side.verdict(codes) == together


def test_who_is_alone_waits_for_the_others_and_they_wait_for_it(tmp_path: Path) -> None:
    one, two = Turns(tmp_path), Turns(tmp_path)
    one.take(alone=False)
    two.take(alone=False)
    order: list[str] = []
    thread = threading.Thread(target=lambda: (two.take(alone=True), order.append("alone")))
    thread.start()
    thread.join(0.3)
    assert order == []
    one.give_back()
    thread.join(30)
    assert order == ["alone"]
    back = threading.Thread(target=lambda: (one.take(alone=False), order.append("beside")))
    back.start()
    back.join(0.3)
    assert order == ["alone"]
    two.give_back()
    back.join(30)
    assert order == ["alone", "beside"]


def test_a_second_try_waits_for_the_room_no_longer_than_its_patience(tmp_path: Path) -> None:
    one, two = Turns(tmp_path), Turns(tmp_path)
    one.take(alone=False)
    two.take(alone=False)
    two.take(alone=True, patience=0.2)
    assert two.alone is None
    one.give_back()
    two.take(alone=True, patience=0.2)
    assert two.alone is True
