"""What a plan's sentences about access rules are about: a code beside the words, for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

WRITE_RULES = "write_rules"
UNREAD_RULES = "unread_rules"
# How the sentences of plans begin that were stored without codes.
_BEGAN = {
    WRITE_RULES: "Access rules that allow WRITE are not carried",
    UNREAD_RULES: "Access rules are not part of this plan.",
}


def said_of(code: str, left_out: Iterable[str], codes: Mapping[str, str] | None) -> list[str]:
    """The sentences of a plan that have this code; `codes` is None where none were stored."""
    if codes is None:
        return [sentence for sentence in left_out if sentence.startswith(_BEGAN[code])]
    return [sentence for sentence in left_out if codes.get(sentence) == code]
