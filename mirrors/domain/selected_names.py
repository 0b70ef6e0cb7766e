"""Names that a flow's `topics` selects, told from the setting alone."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from mirrors.domain.patterns.languages import Undecided, both, example, invert
from mirrors.domain.patterns.lists import NamePatterns
from mirrors.domain.patterns.pattern_languages import of_patterns
from mirrors.domain.specs import FlowSettings

# A name as Kafka allows it; people leave its dots as they are, or escape them.
_LITERAL = re.compile(r"(?:[A-Za-z0-9_.-]|\\\.)+")


def literal_names(elements: Sequence[str], listed: Collection[str]) -> list[str]:
    """Names in a list of patterns that are not listed, and that no listed topic stands for."""
    found = []
    for element in elements:
        if not _LITERAL.fullmatch(element):
            continue
        name = element.replace("\\.", ".")
        pattern = NamePatterns([element])
        if name not in listed and not any(pattern.matches(other) for other in listed):
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
