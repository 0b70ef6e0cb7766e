"""Lists of Java regular expressions for whole names, matched by RE2 in linear time."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import re2

from mirrors.domain.patterns import java_to_re2

# A valid name of Kafka's; its dots may be escaped or not.
_LITERAL = re.compile(r"(?:[A-Za-z0-9_.-]|\\\.)+")

LONGEST_ELEMENT = 1000
LONGEST_LIST = 50_000


def check_patterns(elements: Sequence[str]) -> None:
    """Raise a ValueError that names the first unusable element and the reason."""
    NamePatterns(elements)


def literal_name(element: str) -> str | None:
    """Return the only name that an element of a list matches; None for a real pattern."""
    return element.replace("\\.", ".") if _LITERAL.fullmatch(element) else None


class NamePatterns:
    """A list as MM2 uses it: joined by bars, for whole names. An empty list matches nothing."""

    def __init__(self, elements: Sequence[str]) -> None:
        self.elements = tuple(elements)
        if (length := sum(map(len, self.elements))) > LONGEST_LIST:
            raise ValueError(f"has {length} characters in all; the limit is {LONGEST_LIST}")
        flags: java_to_re2.Flags = frozenset()
        joined: list[str] = []
        self._each: list[Any] = []
        for element in self.elements:
            # A flag set in one element is still on in the next: Java compiles one pattern.
            before = "".join(sorted(flags))
            text, flags = _translated(element, flags)
            self._each.append(_compiled(f"(?{before}:{text})" if before else text, element))
            joined.append(text)
        self._any = _compiled("|".join(joined), "") if joined else None

    def matches(self, name: str) -> bool:
        return self._any is not None and self._any.fullmatch(name) is not None

    def first_match(self, name: str) -> str | None:
        """Return the first element that matches, as written."""
        for element, compiled in zip(self.elements, self._each, strict=True):
            if compiled.fullmatch(name) is not None:
                return element
        return None


# Every run of a sync task reads the settings again, but patterns seldom change.
@functools.lru_cache(maxsize=2000)
def _translated(element: str, flags: java_to_re2.Flags) -> tuple[str, java_to_re2.Flags]:
    if len(element) > LONGEST_ELEMENT:
        raise ValueError(
            f"has an element of {len(element)} characters ({element[:30]}…); the limit is "
            f"{LONGEST_ELEMENT}"
        )
    try:
        return java_to_re2.translate(element, flags)
    except ValueError as error:
        raise ValueError(f"cannot use the element {_shown(element)}: it {error}") from None


def _compiled(text: str, element: str) -> Any:
    try:
        return compile_re2(text)
    except ValueError as error:
        where = f"the element {_shown(element)}" if element else "all elements together"
        raise ValueError(f"cannot use {where}: {error}") from None


def compile_re2(text: str) -> Any:
    """Return RE2's compiled expression. Raises ValueError with RE2's reason."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "refused"
        raise ValueError(reason.decode() if isinstance(reason, bytes) else reason) from None


def _shown(element: str) -> str:
    # Not repr, which doubles every backslash.
    return f"'{element}'" if len(element) <= 60 else f"'{element[:60]}…'"
