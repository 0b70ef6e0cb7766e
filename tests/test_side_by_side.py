"""The sessions of the suite: no test is left out or run twice, and an exclusive one runs alone."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import pool, side_by_side
from tests.exclusive import Turns

TESTS = Path(__file__).parent


def files(name: str) -> set[Path]:
    path = pool.ROOT / name
    return set(path.rglob("test_*.py")) if path.is_dir() else {path}


def test_every_file_is_in_exactly_one_share() -> None:
    own, shared = pool.shares()
    assert len(own) == len(side_by_side.NAMES)
    found = [path for share in (*own, shared) for name in share for path in files(name)]
    assert len(found) == len(set(found))
    assert set(found) == set(TESTS.rglob("test_*.py"))


def test_both_begin_with_their_own_and_take_each_file_of_the_pool_once(tmp_path: Path) -> None:
    names = [f"tests/wire/test_{letter}.py" for letter in "abcde"]
    one, two = (
        [SimpleNamespace(path=pool.ROOT / name) for name in (own, *names, names[0])]
        for own in ("tests/mirrors/test_own.py", "tests/pages/test_own.py")
    )
    first = pool.Pool(tmp_path, names).order(one, backwards=False)  # type: ignore[arg-type]
    second = pool.Pool(tmp_path, names).order(two, backwards=True)  # type: ignore[arg-type]
    ran = [next(first), next(second), next(first), next(second), *first, *second]
    assert [item.path.stem[5:] for item in ran] == ["own", "own", "a", "e", "a", *"bcd"]


def test_a_session_may_begin_with_files_of_the_pool(tmp_path: Path) -> None:
    names = [f"tests/wire/test_{letter}.py" for letter in "abc"]
    items = [SimpleNamespace(path=pool.ROOT / name) for name in ("tests/spark/test_own.py", *names)]
    order = pool.Pool(tmp_path, names).order(items, backwards=False, early=2)  # type: ignore[arg-type]
    assert [item.path.stem[5:] for item in order] == [*"bc", "own", "a"]


def test_files_that_share_a_broker_run_in_one_session(tmp_path: Path) -> None:
    names = ["tests/wire/test_a.py", *(f"tests/{name}" for name in pool.TOGETHER)]
    items = [SimpleNamespace(path=pool.ROOT / name) for name in names]
    one, two = (
        pool.Pool(tmp_path, names).order(items, backwards=backwards)  # type: ignore[arg-type]
        for backwards in (False, True)
    )
    assert next(two).path == items[1].path
    assert [item.path for item in one] == [items[0].path]
    assert [item.path for item in two] == [item.path for item in items[2:]]


def test_files_of_the_pool_need_no_database() -> None:
    """Tests that do come first in their session, and those of the pool come last."""
    asks = re.compile(r"django_db|\b(transactional_)?db\b[:,)]|live_server|mark\.alone")
    texts = {name: (pool.ROOT / name).read_text(encoding="utf-8") for name in pool.shares()[1]}
    assert [name for name, text in texts.items() if asks.search(text)] == []


@pytest.mark.parametrize(
    ("codes", "together"),
    [
        *(((0, 0, 0), 0), ((0, 1, 0), 1), ((2, 0, 0), 2), ((0, 0, 1), 1), ((0, 5, 0), 0)),
        *(((5, 1, 5), 1), ((5, 5, 5), 5), ((0, -9, 5), -9)),
    ],
)
def test_all_must_pass_and_some_of_them_may_have_nothing_to_run(
    codes: tuple[int, ...], together: int
) -> None:
    assert side_by_side.verdict(codes) == together


def test_the_end_says_whether_the_processors_or_the_tests_set_the_time() -> None:
    before = SimpleNamespace(user=10.0, nice=1.0, system=2.0, idle=50.0)
    after = SimpleNamespace(user=40.0, nice=3.0, system=5.0, idle=75.0)
    assert side_by_side.demand(before, after, 30.4) == (
        "All sessions took 30 s. Meanwhile the processors worked 35 s "
        "and had nothing to do for 25 s."
    )


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


def test_a_last_try_waits_for_the_room_no_longer_than_its_patience(tmp_path: Path) -> None:
    one, two = Turns(tmp_path), Turns(tmp_path)
    one.take(alone=False)
    two.take(alone=False)
    two.take(alone=True, patience=0.2)
    assert two.alone is None
    one.give_back()
    two.take(alone=True, patience=0.2)
    assert two.alone is True
