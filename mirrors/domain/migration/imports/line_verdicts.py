"""Verdicts of an import on each line: used, defaulted, different or unsupported, and why."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.migration.imports.mm2_precedence import Entry

LineVerdict = Literal["used", "defaulted", "different", "unsupported"]
_WEIGHT: dict[LineVerdict, int] = {"defaulted": 0, "used": 1, "different": 2, "unsupported": 3}
MOST_SENTENCES = 3
LONGEST_KEY = 200


@dataclasses.dataclass(frozen=True)
class KeyVerdict:
    """One key. `number` is None if the text does not contain it. It never contains a value."""

    number: int | None
    key: str
    verdict: LineVerdict
    reason: str


class VerdictCollector:
    """Collects the verdicts; of several verdicts on one line the most severe counts."""

    def __init__(self) -> None:
        self._said: dict[tuple[int | None, str], dict[str, LineVerdict]] = {}

    def say(self, entry: Entry, verdict: LineVerdict, reason: str) -> None:
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

    def _line(self, number: int | None, key: str, sentences: dict[str, LineVerdict]) -> KeyVerdict:
        worst = max(sentences.values(), key=_WEIGHT.__getitem__)
        chosen = [text for text, verdict in sentences.items() if verdict == worst]
        more = len(chosen) - MOST_SENTENCES
        reason = " ".join(chosen[:MOST_SENTENCES])
        return KeyVerdict(
            number, shown(key), worst, f"{reason} (and {more} more)" if more > 0 else reason
        )


def shown(key: str) -> str:
    """Return a key that may be shown: on one line and not too long."""
    text = "".join(letter if letter.isprintable() else "�" for letter in key)
    return text if len(text) <= LONGEST_KEY else f"{text[:LONGEST_KEY]}…"
