"""Parses a list of Java patterns to the set of topic names that it matches."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import re2

from mirrors.domain.patterns import java_to_re2
from mirrors.domain.patterns.name_sets import (
    ALPHABET,
    EMPTY,
    Language,
    Undecided,
    either,
    example,
    one,
    star,
    then,
)

_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_ATOM = re.compile(
    r"\[\^?(?:\[:\^?\w+:\]|\\[pP]\{\w+\}|\\x\{[0-9a-f]+\}|[^\]\\])*\]"
    r"|\\[pP]\{\w+\}|\\x\{[0-9a-f]+\}|\.|[A-Za-z0-9]|[^\x00-\x7f]"
)
_MOST_REPEATS = 200


def of_patterns(elements: Sequence[str]) -> Language:
    """Return the language of patterns that `matcher.check_patterns` accepts. Raises Undecided."""
    found: list[Language] = []
    flags: java_to_re2.Flags = frozenset()
    for element in elements:
        text, after = java_to_re2.translate(element, flags)
        found.append(_Parser(text, flags).run())
        flags = after
    return either(*found)


def without_topics(elements: Sequence[str]) -> list[str]:
    """Return the patterns that match no topic name, whatever topics there are.

    Typical is a comment behind a value, or quotation marks. An undecided pattern is not among them.
    """
    found = []
    for element in elements:
        try:
            if element and example(of_patterns([element])) is None:
                found.append(element)
        except (Undecided, ValueError):
            continue
    return found


class _Parser:
    """Parses the output of `java_to_re2`: a few canonical forms, not the whole dialect."""

    def __init__(self, text: str, flags: java_to_re2.Flags) -> None:
        self.text = text
        self.at = 0
        self.flags = flags

    def run(self) -> Language:
        found = self._alternatives()
        if self.at < len(self.text):
            raise Undecided
        return found

    def _alternatives(self) -> Language:
        found = self._sequence()
        while self.text.startswith("|", self.at):
            self.at += 1
            found = either(found, self._sequence())
        return found

    def _sequence(self) -> Language:
        parts = []
        first = self.at
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self._anchor(first):
                continue
            parts.append(self._repeated(self._atom()))
        return functools.reduce(lambda rest, part: then(part, rest), reversed(parts), EMPTY)

    def _anchor(self, first: int) -> bool:
        """Skip an anchor at the edge of the whole pattern; elsewhere it is undecided."""
        for sign in ("^", "$", r"\A", r"\z", r"\b", r"\B"):
            if self.text.startswith(sign, self.at):
                begins = sign in ("^", r"\A") and self.at == first == 0
                ends = sign in ("$", r"\z") and self.at + len(sign) == len(self.text)
                if not begins and not ends:
                    raise Undecided
                self.at += len(sign)
                return True
        return False

    def _atom(self) -> Language:
        if self.text[self.at] == "(":
            return self._group()
        found = _ATOM.match(self.text, self.at)
        if found is None:
            raise Undecided
        self.at = found.end()
        return one(_mask(found.group(), "i" in self.flags))

    def _group(self) -> Language:
        found = re.compile(r"\((?:\?([is]*)(?:-([is]+))?([:)]))?").match(self.text, self.at)
        if found is None:
            raise Undecided
        on, off, end = found.groups()
        self.at = found.end()
        outer = self.flags
        self.flags = (outer | set(on or "")) - set(off or "")
        if end == ")":
            return EMPTY
        inner = self._alternatives()
        if not self.text.startswith(")", self.at):
            raise Undecided
        self.at += 1
        self.flags = outer
        return inner

    def _repeated(self, inner: Language) -> Language:
        sign = self.text[self.at : self.at + 1]
        if sign in ("*", "+", "?") and sign:
            self.at += 1
            many = star(inner)
            return {"*": many, "+": then(inner, many), "?": either(inner, EMPTY)}[sign]
        found = _COUNT.match(self.text, self.at)
        if found is None:
            return inner
        self.at = found.end()
        least = int(found[1])
        most = None if found[2] and not found[3] else int(found[3] or least)
        if max(least, most or 0) > _MOST_REPEATS:
            raise Undecided
        tail = star(inner) if most is None else EMPTY
        for _ in range((most or least) - least):
            tail = either(EMPTY, then(inner, tail))
        return functools.reduce(lambda rest, _: then(inner, rest), range(least), tail)


@functools.lru_cache(maxsize=2000)
def _mask(atom: str, folded: bool) -> int:
    """Return which letters of topic names the atom matches, as RE2 decides."""
    compiled = re2.compile(f"(?i){atom}" if folded else atom)
    return sum(
        1 << at for at, letter in enumerate(ALPHABET) if compiled.fullmatch(letter) is not None
    )
