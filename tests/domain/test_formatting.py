"""Formatting of figures: nothing hidden, nothing rounded away, a dash for an unknown value."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain import formatting


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, formatting.UNKNOWN),
        (0, "0 s"),
        (40, "0 s"),
        (420, "0.4 s"),
        (1_000, "1 s"),
        (9_960, "10 s"),
        (38_400, "38 s"),
        (125_000, "2 min 5 s"),
        (120_000, "2 min"),
        (32_400_000, "9 h"),
        (3 * 86_400_000 + 4 * 3_600_000 + 59_000, "3 d 4 h"),
        (3 * 86_400_000 + 59_000, "3 d"),
        (-5, "0 s"),
    ],
)
def test_durations_read_in_their_two_leading_units(milliseconds: float | None, text: str) -> None:
    assert formatting.duration(milliseconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, formatting.UNKNOWN),
        (0, "0 B"),
        (512, "512 B"),
        (999.7, "1.0 kB"),
        (4_100, "4.1 kB"),
        (41e6, "41 MB"),
    ],
)
def test_sizes_read_in_decimal_units(amount: float | None, text: str) -> None:
    assert formatting.size(amount) == text


@given(st.integers(min_value=0, max_value=10**18))
def test_a_size_never_needs_more_than_three_digits(amount: int) -> None:
    number, unit = formatting.size(amount).split()
    assert len(number.replace(".", "")) <= 3 or unit == "PB"


@given(st.integers())
def test_a_count_keeps_every_digit(amount: int) -> None:
    assert formatting.count(amount).replace(",", "") == str(amount)


def test_rates_show_a_decimal_only_where_it_matters() -> None:
    assert [formatting.rate(value) for value in (None, 0, 0.4, 9.96, 2041.3)] == [
        formatting.UNKNOWN,
        "0",
        "0.4",
        "10",
        "2,041",
    ]


def test_letters_that_could_hide_are_shown() -> None:
    assert formatting.visible("a\x00b\u202ec\nd\u200be") == "a\\x00b\\u202ec\\x0ad\\u200be"
    assert formatting.visible("Zahlung–日本 é") == "Zahlung–日本 é"  # noqa: RUF001


@given(st.text())
def test_shown_text_is_printable(text: str) -> None:
    assert all(
        sign == " " or sign.isprintable() or sign.isspace() for sign in formatting.visible(text)
    )


def test_amounts_agree_with_their_noun() -> None:
    assert [formatting.plural(n, "record") for n in (0, 1, 4112)] == [
        "0 records",
        "1 record",
        "4,112 records",
    ]
    assert formatting.plural(2, "child", "children") == "2 children"


def test_a_flow_name_reads_with_an_arrow() -> None:
    assert formatting.arrow("primary->backup") == "primary→backup"
