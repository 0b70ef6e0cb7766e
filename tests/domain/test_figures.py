"""Laws of how figures read: nothing hidden, nothing rounded away, a dash for what is not known."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain import figures


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, figures.UNKNOWN),
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
    assert figures.duration(milliseconds) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, figures.UNKNOWN),
        (0, "0 B"),
        (512, "512 B"),
        (999.7, "1.0 kB"),
        (4_100, "4.1 kB"),
        (41e6, "41 MB"),
    ],
)
def test_sizes_read_in_decimal_units(amount: float | None, text: str) -> None:
    assert figures.size(amount) == text


@given(st.integers(min_value=0, max_value=10**18))
def test_a_size_never_needs_more_than_three_digits(amount: int) -> None:
    number, unit = figures.size(amount).split()
    assert len(number.replace(".", "")) <= 3 or unit == "PB"


@given(st.integers())
def test_a_count_keeps_every_digit(amount: int) -> None:
    assert figures.count(amount).replace(",", "") == str(amount)


def test_rates_show_a_decimal_only_where_it_matters() -> None:
    assert [figures.rate(value) for value in (None, 0, 0.4, 9.96, 2041.3)] == [
        figures.UNKNOWN,
        "0",
        "0.4",
        "10",
        "2,041",
    ]


def test_letters_that_could_hide_are_shown() -> None:
    assert figures.visible("a\x00b\u202ec\nd\u200be") == "a\\x00b\\u202ec\\x0ad\\u200be"
    assert figures.visible("Zahlung–日本 é") == "Zahlung–日本 é"  # noqa: RUF001


@given(st.text())
def test_shown_text_is_printable(text: str) -> None:
    assert all(
        sign == " " or sign.isprintable() or sign.isspace() for sign in figures.visible(text)
    )


def test_amounts_agree_with_their_noun() -> None:
    assert [figures.plural(n, "record") for n in (0, 1, 4112)] == [
        "0 records",
        "1 record",
        "4,112 records",
    ]
    assert figures.plural(2, "child", "children") == "2 children"


def test_a_flow_name_reads_with_an_arrow() -> None:
    assert figures.arrow("primary->backup") == "primary→backup"
