"""Java's properties syntax: the same result as Java, with the line number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.java_properties import property_line, read_properties
from tests.domain.cases import golden, laws

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


@pytest.mark.parametrize(
    "case", golden("properties_syntax")["cases"], ids=lambda c: repr(c["text"])
)
def test_a_text_is_read_as_java_reads_it(case: dict[str, object]) -> None:
    text = bytes.fromhex(str(case["bytes"])).decode("latin-1")
    lines, faults = read_properties(text)
    assert not faults
    assert {line.key: line.value for line in lines} == case["result"]


def test_a_line_knows_where_it_begins() -> None:
    text = "# head\r\n\r\na=1\r\nb=\\\r\n  2\r\n!c\rd 3\n\\\n#e\nf=4\\\n"
    lines, _ = read_properties(text)
    assert [(line.number, line.key, line.value) for line in lines] == [
        (3, "a", "1"),
        (4, "b", "2"),
        (7, "d", "3"),
        (10, "f", "4"),
    ]


@pytest.mark.parametrize("value", ["\\u12", "\\uXYZW", "\\ud83d"])
def test_an_escape_that_means_nothing_is_a_fault_of_its_line(value: str) -> None:
    lines, faults = read_properties(f"a=1\nb={value}\nc=2")
    assert [line.key for line in lines] == ["a", "c"]
    assert [fault.number for fault in faults] == [2]


@laws
@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_what_is_written_is_read_back(pairs: list[tuple[str, str]]) -> None:
    text = "\n".join(property_line(key, value) for key, value in pairs)
    lines, faults = read_properties(text)
    assert not faults
    assert [(line.key, line.value) for line in lines] == pairs
