"""Verdicts of an import on each line: used, defaulted, different or unsupported, and why.

A line that MirrorMaker 2 itself ignores may be a misspelled setting, so it is unsupported. A person
can choose to leave such lines out.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.migration.imports.mm2_precedence import Entry

LineVerdict = Literal["used", "defaulted", "different", "unsupported"]
# What a reader says of a line: `ignored` becomes one of the others, as the person chose.
Judgment = Literal["used", "defaulted", "different", "ignored", "unsupported"]
_WEIGHT: dict[Judgment, int] = {
    "defaulted": 0, "used": 1, "different": 2, "ignored": 3, "unsupported": 4
}  # fmt: skip
_LEFT_OUT = "Left out, as MirrorMaker 2 ignores it."
_MAY_BE_LEFT_OUT = "MirrorMaker 2 ignores it: correct the line, remove it, or leave such lines out."
NO_COMMENT = (
    "MirrorMaker 2 takes what follows # for a part of the value, too: write comments on lines of "
    "their own"
)
MOST_SENTENCES = 3
LONGEST_KEY = 200


@dataclasses.dataclass(frozen=True)
class KeyVerdict:
    """One key. `number` is None if the text does not contain it. It never contains a secret.

    `ignored`: unsupported only because it may be an error; MirrorMaker 2 ignores the line.
    """

    number: int | None
    key: str
    verdict: LineVerdict
    reason: str
    ignored: bool = False


class VerdictCollector:
    """Collects the verdicts; of several verdicts on one line the most severe counts.

    `leave_out`: the person chose to leave out lines that MirrorMaker 2 ignores.
    """

    def __init__(self, *, leave_out: bool = False) -> None:
        self._leave_out = leave_out
        self._said: dict[tuple[int | None, str], dict[str, Judgment]] = {}

    def say(self, entry: Entry, verdict: Judgment, reason: str) -> None:
        first = reason.partition(" ")[0]
        # A sentence may begin with a key, whose case is kept.
        named = "." in first or "->" in first or first == entry.key
        sentence = reason if named else reason[:1].upper() + reason[1:]
        sentence = sentence if sentence.endswith((".", "?")) else f"{sentence}."
        self._said.setdefault((entry.number, entry.key), {})[sentence] = verdict

    def refuse(self, key: str, reason: str) -> None:
        """Report an error of the whole text, or a missing line."""
        self.say(Entry("", None, key), "unsupported", reason)

    def heard(self, entry: Entry) -> bool:
        return (entry.number, entry.key) in self._said

    def lines(self) -> tuple[KeyVerdict, ...]:
        """Return the lines by number; those without a number come last."""
        found = [
            self._line(number, key, sentences) for (number, key), sentences in self._said.items()
        ]
        return tuple(sorted(found, key=lambda line: (line.number is None, line.number or 0)))

    def _line(self, number: int | None, key: str, sentences: dict[str, Judgment]) -> KeyVerdict:
        worst = max(sentences.values(), key=_WEIGHT.__getitem__)
        chosen = [text for text, verdict in sentences.items() if verdict == worst]
        more = len(chosen) - MOST_SENTENCES
        reason = " ".join(chosen[:MOST_SENTENCES])
        reason = f"{reason} (and {more} more)" if more > 0 else reason
        if worst != "ignored":
            return KeyVerdict(number, shown(key), worst, reason)
        if self._leave_out:
            return KeyVerdict(number, shown(key), "different", f"{reason} {_LEFT_OUT}")
        reason = f"{reason} {_MAY_BE_LEFT_OUT}"
        return KeyVerdict(number, shown(key), "unsupported", reason, ignored=True)


def shown(key: str) -> str:
    """Return a key that may be shown: on one line and not too long."""
    text = "".join(letter if letter.isprintable() else "�" for letter in key)
    return text if len(text) <= LONGEST_KEY else f"{text[:LONGEST_KEY]}…"
