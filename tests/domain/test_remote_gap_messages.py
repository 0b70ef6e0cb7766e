"""The messages when the target has less than was committed there."""

from __future__ import annotations

import pytest

from mirrors.domain.gaps.lost_ranges import remote_truncation
from spark_runner.positions.validation import describe_remote_truncation


@pytest.mark.parametrize(("end", "is_a_marker"), [(29, True), (28, False)])
def test_one_offset_alone_is_told_to_be_the_end_of_a_transaction(
    end: int, is_a_marker: bool
) -> None:
    facts = remote_truncation(17, 0, end=end, belongs=30)
    said = describe_remote_truncation(facts, "orders-0", "a.orders-0", "b")
    assert f"lost {30 - end} offset" in said
    assert ("no record but the end of a transaction" in said) is is_a_marker
    assert ("unclean election" in said) is not is_a_marker
