"""Which subjects a flow synchronizes, and how they are named on the target."""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from mirrors.domain.patterns.matcher import NamePatterns

SUBJECT: Final = "${subject}"
# Confluent's name of a context, before the subject's own name.
_CONTEXT: Final = re.compile(r":\.[A-Za-z0-9_-]*:")
_ALLOWED: Final = re.compile(r"[A-Za-z0-9._-]*")


@dataclasses.dataclass(frozen=True)
class SubjectFormat:
    """The name on the target: `${subject}` once, with a prefix, suffix or context."""

    description = (
        "a text with ${subject} once, letters, digits, dots, dashes and underscores around it, "
        "and perhaps a context such as :.east: at the beginning"
    )

    def parse(self, text: str) -> str:
        word = text.strip()
        before, found, after = word.partition(SUBJECT)
        context = _CONTEXT.match(before)
        prefix = before[context.end() :] if context else before
        if not found or len(word) > 200 or not _ALLOWED.fullmatch(prefix + after):
            raise ValueError(f"must be {self.description}, not {text[:60]!r}")
        return word


@dataclasses.dataclass(frozen=True)
class SubjectSelection:
    """The choice of a flow.

    - `names`, `excluded`: patterns of whole subject names, with their context.
    - `template`: the name on the target, a value of SubjectFormat.
    """

    names: tuple[str, ...] = (".*",)
    excluded: tuple[str, ...] = ()
    template: str = SUBJECT

    def select(self, subjects: list[str]) -> list[str]:
        """The selected ones, in order."""
        wanted, unwanted = NamePatterns(self.names), NamePatterns(self.excluded)
        return sorted(
            name for name in subjects if wanted.matches(name) and not unwanted.matches(name)
        )

    def on_target(self, subject: str) -> str | None:
        """The subject's name on the target; None if two contexts would meet in it."""
        context = _CONTEXT.match(subject)
        if context is None:
            return self.template.replace(SUBJECT, subject)
        if _CONTEXT.match(self.template):
            return None
        return context.group() + self.template.replace(SUBJECT, subject[context.end() :])
