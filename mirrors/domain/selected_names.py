"""Names that a flow's `topics` selects, told from the setting alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mirrors.domain.patterns.languages import Undecided, both, example, invert
from mirrors.domain.patterns.lists import NamePatterns, literal_name
from mirrors.domain.patterns.pattern_languages import of_patterns
from mirrors.domain.specs import FlowSettings


def literal_names(elements: Sequence[str], listed: Collection[str]) -> list[str]:
    """Names in a list of patterns that are not listed, and that no listed topic stands for."""
    found = []
    for element in elements:
        name = literal_name(element)
        if name is None or name in listed:
            continue
        pattern = NamePatterns([element])
        if not any(pattern.matches(other) for other in listed):
            found.append(name)
    return found


def example_name(settings: FlowSettings) -> str | None:
    """A name that `topics` selects and `topics.exclude` does not; None where none is found."""
    try:
        wanted = of_patterns(settings.topics)
        unwanted = of_patterns(settings.topics_exclude)
        return example(both(wanted, invert(unwanted)))
    except Undecided:
        return None
