"""The likely cause of a text that is not YAML, in a person's words instead of the parser's."""

from __future__ import annotations

import yaml

# By a part of what the parser reports; the first one counts.
_CAUSES = {
    "mapping values are not allowed": "the line is indented further than its neighbors, or a text "
    "with a colon and a blank lacks quotation marks",
    "scanning an alias": "a text that begins with * lacks quotation marks",
    "scanning an anchor": "a text that begins with & lacks quotation marks",
    "scanning a directive": "a text that begins with % lacks quotation marks",
    "scanning a quoted scalar": "a quotation mark is not closed",
    "parsing a quoted scalar": "a quotation mark is not closed",
    "expected ':'": "a colon with a blank behind it is missing",
    "parsing a flow": "a bracket is not closed, or a comma between its elements is missing",
    "expected <block end>": "the line is indented less or more than its neighbors",
    "expected key": "the line is indented less or more than its neighbors, or a quotation mark "
    "inside a text ends it",
    "expected '-'": "the element of a list is not indented as the others, or lacks -",
    "cannot start any token": "a text that begins with this character lacks quotation marks",
}


def line_of(error: yaml.MarkedYAMLError) -> int:
    """Return the line of an error, counted from 1."""
    mark = error.problem_mark or error.context_mark
    return mark.line + 1 if mark else 1


def likely_cause(error: yaml.MarkedYAMLError, text: str) -> str:
    """Return a clause without a full stop; empty if none is known. It quotes nothing."""
    lines = text.splitlines()
    at = line_of(error) - 1
    broken = lines[at] if at < len(lines) else ""
    if "\t" in broken[: len(broken) - len(broken.lstrip())]:
        return "the line is indented with a tab; YAML wants blanks"
    said = f"{error.problem or ''}, {error.context or ''}"
    return next((cause for part, cause in _CAUSES.items() if part in said), "")
