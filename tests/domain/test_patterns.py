"""Java's patterns mean here what they mean in Java, or are refused with a reason, and are fast."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.patterns.matcher import NamePatterns, check_patterns
from tests.domain.cases import golden, laws

JAVA = golden("java_patterns")


def is_comparable(pattern: str, name: str) -> bool:
    """Outside ASCII, Java's \\b and (?i) differ from RE2's: documented, and no topic has such."""
    return name.isascii() or ("\\b" not in pattern.lower() and "(?i" not in pattern)


def test_every_accepted_pattern_answers_as_java_does() -> None:
    accepted = 0
    for pattern, answers in JAVA["cases"]:
        try:
            patterns = NamePatterns([pattern])
        except ValueError:
            continue
        assert answers is not None, f"Java refuses {pattern!r}"
        accepted += 1
        for name, answer in zip(JAVA["names"], answers, strict=True):
            if is_comparable(pattern, name):
                assert patterns.matches(name) == (answer == "1"), (pattern, name)
    assert accepted > len(JAVA["cases"]) / 2


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a(?=b)", "a lookahead"),
        ("a(?!b)", "a negative lookahead"),
        ("(?<=a)b", "a lookbehind"),
        ("(?<!a)b", "a negative lookbehind"),
        ("(?>a)b", "an atomic group"),
        ("(a)\\1", "a backreference \\1"),
        ("a++", "a possessive quantifier ++"),
        ("a{2}+", "a possessive quantifier {2}+"),
        ("(?x)a b", "only the flags i and s"),
        ("(?U)a", "only the flags i and s"),
        ("\\R", "a line break"),
        ("\\p{IsAlphabetic}", "\\p{IsAlphabetic}, a property"),
        ("[a-z&&b[c]]", "mixes && with more than one part"),
        ("\\Qorders", "\\Q without \\E"),
        ("a{1", "{ that does not begin a quantifier"),
        ("*a", "a quantifier * with nothing before it"),
        ("(a", "a bracket ( that is not closed"),
        ("a)", "a bracket ) that was not opened"),
        ("[a", "a bracket [ that is not closed"),
        ("a\\", "a single backslash"),
        ("(a{1000}){1000}", "invalid repetition size"),
        ("(" * 60 + ")" * 60, "more than 50 deep"),
        ("[" * 60, "more than 50 deep"),
        ("a" * 1001, "1001 characters"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_element(pattern: str, words: str) -> None:
    with pytest.raises(ValueError, match="element") as refused:
        check_patterns(["fine", pattern])
    assert words in str(refused.value)
    assert pattern[:30] in str(refused.value)


def test_a_list_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="60000 characters in all"):
        check_patterns(["a" * 600] * 100)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)*b", "(.*a){20}b", "(a?){50}a{50}b"])
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    patterns = NamePatterns([pattern])
    started = time.perf_counter()
    assert not patterns.matches("a" * 249)
    assert time.perf_counter() - started < 0.2


def test_elements_are_joined_so_a_flag_in_one_is_on_in_the_next() -> None:
    assert NamePatterns(["(?i)orders", "PAYMENTS"]).matches("payments")
    assert NamePatterns(["(?i)orders", "PAYMENTS"]).first_match("payments") == "PAYMENTS"
    assert not NamePatterns(["(?i:orders)", "PAYMENTS"]).matches("payments")


def test_the_first_element_that_matches_is_told_as_it_was_written() -> None:
    patterns = NamePatterns([r"pay\w+", r"\Qorders.v1\E", "orders.*"])
    assert patterns.first_match("orders.v1") == r"\Qorders.v1\E"
    assert patterns.first_match("nothing") is None


def test_an_empty_list_matches_nothing_not_even_the_empty_name() -> None:
    assert not NamePatterns([]).matches("")


PIECES = st.sampled_from([*"ab()[]{}*+?|^$.\\&-,:<>=!iQEdwpPxu019", "(?", "\\Q", "\\E", "&&", "[^"])


@laws
@given(st.lists(PIECES, max_size=12).map("".join))
def test_any_text_is_a_pattern_or_a_sentence(text: str) -> None:
    sentence = "cannot use"
    try:
        NamePatterns([text]).matches("orders")
    except ValueError as refused:
        sentence = str(refused)
    assert sentence.startswith("cannot use")
