r"""The parts of a Java pattern that match one character: escapes, \p{…} and [classes]."""

from __future__ import annotations

import dataclasses
import string

Ranges = tuple[tuple[int, int], ...]
LAST = 0x10FFFF
# Deeper nesting is never intended, and would exhaust the stack.
DEEPEST = 50
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
# Java's \s includes the vertical tab; RE2's does not.
_SETS: dict[str, Ranges] = {
    "d": ((48, 57),),
    "s": ((9, 13), (32, 32)),
    "w": ((48, 57), (65, 90), (95, 95), (97, 122)),
}
_POSIX = {
    "Lower": "lower", "Upper": "upper", "ASCII": "ascii", "Alpha": "alpha", "Digit": "digit",
    "Alnum": "alnum", "Punct": "punct", "Graph": "graph", "Print": "print", "Blank": "blank",
    "Cntrl": "cntrl", "XDigit": "xdigit", "Space": "space",
}  # fmt: skip
_CATEGORIES = {
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc",
    "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp",
}  # fmt: skip


def literal(letter: str | int) -> str:
    """Return a pattern that matches only this character in RE2."""
    code = letter if isinstance(letter, int) else ord(letter)
    return chr(code) if code < 128 and chr(code).isalnum() else f"\\x{{{code:x}}}"


@dataclasses.dataclass(frozen=True)
class Characters:
    """A set of characters: ranges, and Unicode properties that only RE2 can expand."""

    ranges: Ranges = ()
    properties: tuple[str, ...] = ()

    def __or__(self, other: Characters) -> Characters:
        return Characters(merged(self.ranges + other.ranges), self.properties + other.properties)

    def __and__(self, other: Characters) -> Characters:
        if self.properties or other.properties:
            raise ValueError(r"combines && with \p{…} in one class")
        found = [
            (max(low, start), min(high, end))
            for low, high in self.ranges
            for start, end in other.ranges
            if max(low, start) <= min(high, end)
        ]
        return Characters(merged(tuple(found)))

    def inverted(self) -> Characters:
        if self.properties:
            raise ValueError(r"combines a class within a class with [^…] and \p{…}")
        return Characters(complement(self.ranges))

    def text(self, *, negated: bool = False) -> str:
        if not self.ranges and not self.properties:
            return r"[\x{0}-\x{10ffff}]" if negated else r"[^\x{0}-\x{10ffff}]"
        inner = "".join(
            literal(low) if low == high else f"{literal(low)}-{literal(high)}"
            for low, high in self.ranges
        )
        return f"[{'^' if negated else ''}{inner}{''.join(self.properties)}]"


def merged(ranges: Ranges) -> Ranges:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    return tuple(out)


def complement(ranges: Ranges) -> Ranges:
    edges = [-1, *(edge for pair in merged(ranges) for edge in pair), LAST + 1]
    pairs = zip(edges[::2], edges[1::2], strict=True)
    return tuple((low + 1, high - 1) for low, high in pairs if low + 1 <= high - 1)


class SimpleEscapes:
    """One escape of one character or one set, from the backslash at `at` up to `end`."""

    def __init__(self, pattern: str, at: int) -> None:
        self.pattern = pattern
        self.end = at + 2
        self.code: int | None = None
        letter = pattern[at + 1 : at + 2]
        if not letter:
            raise ValueError("ends with a single backslash")
        if letter in "pP":
            self.characters = Characters(properties=(self._property(negated=letter == "P"),))
        elif letter.lower() in _SETS:
            ranges = _SETS[letter.lower()]
            self.characters = Characters(complement(ranges) if letter.isupper() else ranges)
        else:
            self.code = self._one(letter)
            self.characters = Characters(((self.code, self.code),))

    @property
    def text(self) -> str:
        return self.characters.text() if self.code is None else literal(self.code)

    def _one(self, letter: str) -> int:
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter in "xu":
            return self._hexadecimal(letter)
        if letter.isascii() and letter.isalnum():
            raise ValueError(f"has \\{letter}, which is not supported")
        return ord(letter)

    def _hexadecimal(self, letter: str) -> int:
        length = 2 if letter == "x" else 4
        digits = self.pattern[self.end : self.end + length]
        self.end += length
        if letter == "x" and digits.startswith("{"):
            stop = self.pattern.find("}", self.end - length)
            digits, self.end = self.pattern[self.end - length + 1 : stop], stop + 1
        elif len(digits) != length:
            digits = ""
        if not digits or not set(digits) <= set(string.hexdigits) or int(digits, 16) > LAST:
            raise ValueError(f"has \\{letter} without a hexadecimal number")
        if 0xD800 <= int(digits, 16) <= 0xDFFF:
            raise ValueError(f"has half a surrogate pair, \\{letter}{digits}")
        return int(digits, 16)

    def _property(self, *, negated: bool) -> str:
        rest = self.pattern[self.end :]
        name = rest[1 : rest.find("}")] if rest.startswith("{") and "}" in rest else rest[:1]
        self.end += len(name) + 2 if rest.startswith("{") else len(name)
        caret = "^" if negated else ""
        if name in _POSIX:
            return f"[:{caret}{_POSIX[name]}:]"
        short = name.removeprefix("Is").removeprefix("general_category=").removeprefix("gc=")
        if short not in _CATEGORIES:
            raise ValueError(f"has \\p{{{name}}}, a property that is not supported")
        return f"\\{'P' if negated else 'p'}{{{short}}}"


class CharacterClass:
    """One class in square brackets, with Java's union [a[bc]] and intersection [a-z&&[^b]].

    `at` is after the opening bracket, `end` after the closing one.
    """

    def __init__(self, pattern: str, at: int, *, folded: bool = False, depth: int = 0) -> None:
        if depth >= DEEPEST:
            raise ValueError(f"has classes nested more than {DEEPEST} deep")
        self.pattern = pattern
        self.end = at
        self.folded = folded
        self.depth = depth
        self.negated = self._takes("^")
        self.characters = self._union(first=True)
        while self._takes("&&"):
            if folded:
                raise ValueError("has && in a class after (?i)")
            self.characters &= self._union(first=False)
        if not self._takes("]"):
            raise ValueError("has a bracket [ that is not closed")

    @property
    def text(self) -> str:
        return self.characters.text(negated=self.negated)

    def _takes(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.end):
            return False
        self.end += len(text)
        return True

    def _union(self, *, first: bool) -> Characters:
        found, nested, count = Characters(), 0, 0
        while self.end < len(self.pattern):
            if self.pattern.startswith("&&", self.end):
                break
            if self.pattern[self.end] == "]" and (count or not first):
                break
            if self.pattern[self.end] == "[":
                found |= self._nested()
                nested += 1
            else:
                found |= self._item()
            count += 1
        if not count or self.pattern.startswith("&&&", self.end):
            closed = self.end < len(self.pattern)
            raise ValueError(
                "has && with nothing on one side"
                if closed
                else "has a bracket [ that is not closed"
            )
        # Java's meaning of [a&&b[c]] depends on the order of its parts; such a class is a mistake.
        if not first and nested and count > 1:
            raise ValueError("has a class that mixes && with more than one part on its right")
        return found

    def _nested(self) -> Characters:
        inner = CharacterClass(self.pattern, self.end + 1, folded=self.folded, depth=self.depth + 1)
        self.end = inner.end
        return inner.characters.inverted() if inner.negated else inner.characters

    def _item(self) -> Characters:
        low = self._character()
        if isinstance(low, Characters):
            return low
        following = self.pattern[self.end + 1 : self.end + 2]
        if not self.pattern.startswith("-", self.end) or following in {"]", "[", ""}:
            return Characters(((low, low),))
        self.end += 1
        high = self._character()
        if isinstance(high, Characters) or high < low:
            raise ValueError("has a range in a class that is reversed or has no end")
        return Characters(((low, high),))

    def _character(self) -> int | Characters:
        if self.pattern[self.end] != "\\":
            self.end += 1
            return ord(self.pattern[self.end - 1])
        found = SimpleEscapes(self.pattern, self.end)
        self.end = found.end
        return found.characters if found.code is None else found.code
