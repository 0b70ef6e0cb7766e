"""Sets of names given by patterns are intersected exactly, and an example proves each answer."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.patterns.name_sets import (
    ANY,
    Undecided,
    after_text,
    both,
    example,
    invert,
    text,
)
from mirrors.domain.patterns.parser import of_patterns
from tests.domain.cases import laws

SHORT = ["".join(name) for size in (1, 2, 3) for name in itertools.product("abc.-", repeat=size)]
PIECES = st.sampled_from(
    ["a", "b", "c", r"\.", "-", "a*", "b+", "c?", ".", "[ab]", "[^a]", "(?:a|b)", "(ab)*", "c{2}"]
)
PATTERNS = st.lists(PIECES, min_size=1, max_size=4).map("".join)


@laws
@given(first=PATTERNS, second=PATTERNS)
def test_an_intersection_is_empty_exactly_when_no_name_is_in_both(first: str, second: str) -> None:
    one, other = NamePatterns([first]), NamePatterns([second])
    found = example(both(of_patterns([first]), of_patterns([second])))
    if found is None:
        assert not any(one.matches(name) and other.matches(name) for name in SHORT)
    else:
        assert one.matches(found)
        assert other.matches(found)


@laws
@given(wanted=PATTERNS, unwanted=PATTERNS)
def test_what_is_excluded_is_never_an_example(wanted: str, unwanted: str) -> None:
    one, other = NamePatterns([wanted]), NamePatterns([unwanted])
    found = example(both(of_patterns([wanted]), invert(of_patterns([unwanted]))))
    if found is None:
        assert not any(one.matches(name) and not other.matches(name) for name in SHORT)
    else:
        assert one.matches(found)
        assert not other.matches(found)


@laws
@given(prefix=st.text("ab.", max_size=3), pattern=PATTERNS)
def test_the_rest_after_a_prefix_completes_it_to_a_name(prefix: str, pattern: str) -> None:
    rest = example(after_text(of_patterns([pattern]), prefix))
    assume(rest is not None)
    assert NamePatterns([pattern]).matches(prefix + rest)


def test_the_example_is_the_shortest() -> None:
    assert example(both(of_patterns(["a.*b"]), of_patterns([".*xb"]))) == "axb"
    assert example(both(ANY, text("orders"))) == "orders"


def test_long_lists_of_names_are_told_apart_quickly() -> None:
    even = [rf"app\.topic-{number}" for number in range(0, 800, 2)]
    odd = [rf"app\.topic-{number}" for number in range(1, 800, 2)]
    assert example(both(of_patterns(even), of_patterns(odd))) is None
    assert example(both(of_patterns(even), of_patterns([*odd, r"app\.topic-8"]))) == "app.topic-8"


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){14}", r"a\bb", "a{500}"])
def test_what_is_too_rich_says_so_instead_of_taking_for_ever(pattern: str) -> None:
    with pytest.raises(Undecided):
        example(both(of_patterns([pattern]), of_patterns(["(a|b)*b(a|b){14}"])))
