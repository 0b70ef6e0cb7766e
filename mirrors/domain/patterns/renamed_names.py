"""Sets of remote topics that `topic.rename` can give, from sets of source topics.

A set may be larger than what the rules really give, never smaller.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from mirrors.domain.patterns.java_to_re2 import unquote
from mirrors.domain.patterns.name_sets import (
    ANY,
    EMPTY,
    Language,
    Undecided,
    after_text,
    both,
    either,
    example,
    invert,
    text,
    then,
)
from mirrors.domain.patterns.parser import of_patterns
from mirrors.domain.patterns.renames import RenameRule, literal_of, template_parts


def named_by(rules: Sequence[RenameRule], topics: Language) -> tuple[Language, Language]:
    """Return the names that rules give to these topics, and the topics that no rule matches.

    Raises Undecided.
    """
    names, rest = [], topics
    for are_literal, some in itertools.groupby(rules, key=_is_literal):
        group = list(some)
        # Hundreds of rules for one topic each are one set: an inverse for each takes minutes.
        if are_literal:
            found = [rule for rule in group if contains(rest, literal_of(rule.pattern) or "")]
            names += [_names(rule, of_patterns([rule.pattern])) for rule in found]
            rest = both(rest, invert(either(*(of_patterns([rule.pattern]) for rule in group))))
            continue
        for rule in group:
            pattern = of_patterns([rule.pattern])
            chosen = both(rest, pattern)
            if example(chosen) is not None:
                names.append(_names(rule, chosen))
            rest = both(rest, invert(pattern))
    return either(*names), rest


def contains(language: Language, name: str) -> bool:
    """Return whether the name is in the set."""
    return after_text(language, name).nullable


def _is_literal(rule: RenameRule) -> bool:
    return literal_of(rule.pattern) is not None


def _names(rule: RenameRule, topics: Language) -> Language:
    """Return the names that a rule gives to topics that it matches."""
    found = EMPTY
    groups = _Groups(rule.pattern, topics)
    for part in reversed(template_parts(rule)):
        found = then(text(part) if isinstance(part, str) else groups(part), found)
    return found


class _Groups:
    """What the groups of an expression can match, by their numbers."""

    def __init__(self, pattern: str, topics: Language) -> None:
        self._topics = topics
        self._text = unquote(pattern)
        # Flags inside the expression change what the text of a group means.
        self._spans = {} if "(?" in self._text else _spans(self._text)

    def __call__(self, number: int) -> Language:
        if number == 0:
            return self._topics
        if number not in self._spans:
            return ANY
        start, end = self._spans[number]
        try:
            own = of_patterns([self._text[start + 1 : end]])
        except (Undecided, ValueError):
            return ANY
        # A group up to the end, after a plain text: what is left of the topics after that text.
        before, after = self._text[:start], self._text[end + 1 :]
        plain = "" if not before else literal_of(before)
        if not after and plain is not None:
            rest = self._topics if not plain else after_text(self._topics, plain)
            return both(own, rest)
        return either(own, EMPTY)


def _spans(pattern: str) -> dict[int, tuple[int, int]]:
    """Return where each group begins and ends. Raises nothing: the expression was compiled."""
    found: dict[int, tuple[int, int]] = {}
    opened: list[int] = []
    starts: dict[int, int] = {}
    at, in_class = 0, False
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\":
            at += 1
        elif in_class:
            in_class = letter != "]"
        elif letter == "[":
            in_class = True
            # A bracket that comes first, or after ^, is a member of the class.
            at += pattern.startswith("^", at + 1)
            at += pattern.startswith("]", at + 1)
        elif letter == "(":
            opened.append(len(starts) + 1)
            starts[opened[-1]] = at
        elif letter == ")":
            number = opened.pop()
            found[number] = (starts[number], at)
        at += 1
    return found
