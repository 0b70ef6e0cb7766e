"""Names that `topics` selects, derived from the setting alone."""

from __future__ import annotations

import pytest

from mirrors.domain.filters.topics import TopicSelection, example_name, literal_names
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSettings


@pytest.mark.parametrize(
    ("elements", "listed", "found"),
    [
        (("orders", r"eu\.pay"), (), ["orders", "eu.pay"]),
        (("eu.pay",), ("eu.pay",), []),
        # An unescaped dot may mean any character.
        (("eu.pay",), ("eu-pay",), []),
        (("orders.*", "[a-z]+", "a|b"), (), []),
    ],
)
def test_an_element_without_a_choice_names_one_topic(
    elements: tuple[str, ...], listed: tuple[str, ...], found: list[str]
) -> None:
    assert literal_names(elements, listed) == found


@pytest.mark.parametrize("topics", [".*", r"orders\..*", "[a-c]xxx", "a,b"])
def test_an_example_passes_the_filters(topics: str) -> None:
    settings = FlowSettings.from_properties({"topics": topics, "topics.exclude": "a.?,-|0"})
    name = example_name(settings)
    assert name is not None
    assert TopicSelection(settings, policy_for(settings, "x", "y")).decide(name).replicated


def test_where_nothing_passes_there_is_none() -> None:
    settings = FlowSettings.from_properties({"topics": "a", "topics.exclude": "a"})
    assert example_name(settings) is None
