"""Translates Java's regular expressions, as in MM2's files, to RE2, or rejects them with a reason.

RE2 works in linear time, so look-around, back-references and possessive repeats are rejected. What
both dialects write alike but read differently is rewritten; tests compare with Java.
"""

from __future__ import annotations

import string

from mirrors.domain.patterns.java_character_classes import (
    DEEPEST,
    CharacterClass,
    SimpleEscapes,
    literal,
)

Flags = frozenset[str]
_GROUPS = {
    "=": "a lookahead (?=…)",
    "!": "a negative lookahead (?!…)",
    ">": "an atomic group (?>…)",
    "<=": "a lookbehind (?<=…)",
    "<!": "a negative lookbehind (?<!…)",
}
_NO_ESCAPES = {
    "G": "the end of the last match",
    "R": "a line break",
    "X": "a grapheme",
    "k": "a backreference",
    "N": "a character by its Unicode name",
    "E": "the end of a quotation without its beginning",
}
_ANCHORS = {"b": r"\b", "B": r"\B", "A": r"\A", "z": r"\z", "Z": r"\z"}


def translate(pattern: str, flags: Flags = frozenset()) -> tuple[str, Flags]:
    """Return the pattern for RE2 and the inline flags at its end. Raises ValueError."""
    return _Translation(unquote(pattern), flags).run()


def translate_groups(pattern: str) -> tuple[str, dict[str, int]]:
    """Return the pattern for RE2 with its groups, and the number of each named group.

    Java numbers named groups, too. Raises ValueError.
    """
    translation = _Translation(unquote(pattern), frozenset(), keeps_groups=True)
    return translation.run()[0], translation.names


def unquote(pattern: str) -> str:
    r"""Expand \Q…\E, which Java does before it parses anything else."""
    pieces: list[str] = []
    at = 0
    while at < len(pattern):
        if not pattern.startswith(r"\Q", at):
            step = 2 if pattern[at] == "\\" else 1
            pieces.append(pattern[at : at + step])
            at += step
            continue
        end = pattern.find(r"\E", at + 2)
        if end < 0:
            raise ValueError(r"has a \Q without \E")
        quoted = pattern[at + 2 : end]
        pieces += [c if c.isalnum() or not c.isascii() else f"\\{c}" for c in quoted]
        at = end + 2
    return "".join(pieces)


class _Translation:
    """One pass from left to right; `flags` are those of the innermost open group.

    `keeps_groups`: what a group matches counts, not only whether the whole name matches.
    """

    def __init__(self, pattern: str, flags: Flags, *, keeps_groups: bool = False) -> None:
        self.pattern = pattern
        self.keeps_groups = keeps_groups
        self.at = 0
        self.flags = flags
        self.outer: list[Flags] = []
        self.out: list[str] = []
        self.groups = 0
        self.names: dict[str, int] = {}
        # Whether a repeat may stand here: after an atom, not after a bar, an anchor, a repeat.
        self.repeatable = False

    def run(self) -> tuple[str, Flags]:
        while self.at < len(self.pattern):
            self._one()
        if self.outer:
            raise ValueError("has a bracket ( that is not closed")
        return "".join(self.out), self.flags

    def _one(self) -> None:
        letter = self.pattern[self.at]
        if letter in "*+?{":
            self._repeat(letter)
        elif letter == "\\":
            self._escape()
        elif letter == "[":
            found = CharacterClass(self.pattern, self.at + 1, folded="i" in self.flags)
            self.at = found.end
            self._emit(found.text)
        elif letter == "(":
            self._open()
        elif letter == ")":
            self._close()
        else:
            self.at += 1
            plain = letter in "|^$."
            self._emit(letter if plain else literal(letter), repeatable=letter not in "|^$")

    def _emit(self, text: str, *, repeatable: bool = True) -> None:
        self.out.append(text)
        self.repeatable = repeatable

    def _repeat(self, letter: str) -> None:
        text = self._count() if letter == "{" else letter
        if not self.repeatable:
            raise ValueError(f"has a quantifier {text} with nothing before it to repeat")
        self.at += len(text)
        if self.pattern.startswith("+", self.at):
            raise ValueError(f"has a possessive quantifier {text}+")
        lazy = self.pattern.startswith("?", self.at)
        self.at += lazy
        # A lazy repeat matches the same whole names as a greedy one.
        self._emit(f"{text}?" if lazy and self.keeps_groups else text, repeatable=False)

    def _count(self) -> str:
        end = self.pattern.find("}", self.at)
        text = self.pattern[self.at : end + 1] if end > 0 else ""
        low, comma, high = text[1:-1].partition(",")
        if not _is_number(low) or (comma and high and not _is_number(high)):
            raise ValueError(
                "has a { that does not begin a quantifier such as {2}; write \\{ for the "
                "character itself"
            )
        return text

    def _open(self) -> None:
        if not self.pattern.startswith("(?", self.at):
            self.at += 1
            self.groups += 1
            self._push("(")
            return
        rest = self.pattern[self.at + 2 :]
        for sign, words in _GROUPS.items():
            if rest.startswith(sign):
                raise ValueError(f"has {words}, which RE2 does not support")
        if rest.startswith("<"):
            name = rest[1 : rest.find(">")]
            if not name.isascii() or not name.isalnum() or not name[:1].isalpha():
                raise ValueError("has a group whose name is not made of letters and digits")
            if name in self.names:
                raise ValueError(f"has two groups named {name}")
            self.groups += 1
            self.names[name] = self.groups
            self.at += len(name) + 4
            self._push("(" if self.keeps_groups else "(?:")
            return
        self._flags(rest)

    def _flags(self, rest: str) -> None:
        length = next((i for i, c in enumerate(rest) if c in ":)"), -1)
        on, _, off = rest[: max(length, 0)].partition("-")
        # Java's (?i) folds ASCII only, (?iu) all letters, RE2's all. Names of topics are ASCII.
        if length < 0 or not set(on) | set(off) <= set("isu") or ("u" in on and "i" not in on):
            raise ValueError(
                f"has (?{rest[: max(length, 1)]}…): only the flags i and s are supported"
            )
        flags = (self.flags | set(on)) - set(off) - {"u"}
        self.at += length + 3
        change = "".join(sorted(set(on) - {"u"})) + ("-" + "".join(sorted(set(off))) if off else "")
        change = change.replace("u", "").removesuffix("-")
        if rest[length] == ":":
            self._push(f"(?{change}:", flags)
        else:
            self.flags = flags
            self._emit(f"(?{change})" if change else "", repeatable=False)

    def _push(self, text: str, flags: Flags | None = None) -> None:
        if len(self.outer) >= DEEPEST:
            raise ValueError(f"has brackets nested more than {DEEPEST} deep")
        self.outer.append(self.flags)
        self.flags = self.flags if flags is None else flags
        self._emit(text, repeatable=False)

    def _close(self) -> None:
        if not self.outer:
            raise ValueError("has a bracket ) that was not opened")
        self.flags = self.outer.pop()
        self.at += 1
        self._emit(")")

    def _escape(self) -> None:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in _ANCHORS and not self.pattern.startswith(r"\b{", self.at):
            self.at += 2
            self._emit(_ANCHORS[letter], repeatable=False)
        elif letter and letter in string.digits[1:]:
            raise ValueError(f"has a backreference \\{letter}, which RE2 does not support")
        elif letter in _NO_ESCAPES:
            raise ValueError(f"has \\{letter} ({_NO_ESCAPES[letter]}), which is not supported")
        else:
            found = SimpleEscapes(self.pattern, self.at)
            self.at = found.end
            self._emit(found.text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()
