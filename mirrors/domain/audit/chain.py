"""The chain of audit entries: the digest of each entry covers the digest of the one before.

An entry that is changed, removed or inserted breaks the chain at its position. A chain that was
computed again as a whole, or lost its end, contradicts a signed anchor.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

# The digest before the first entry.
START = "0" * 64


@dataclasses.dataclass(frozen=True)
class Link:
    """A sealed entry: its position from 1 on, its stored digest, and the facts that it covers."""

    position: int
    digest: str
    facts: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Anchor:
    """The digest at one position; `trusted` if its signature is valid."""

    position: int
    digest: str
    trusted: bool


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a verification found; without findings the entries are as they were sealed."""

    checked: int
    first: int
    last: int
    anchors: int
    findings: tuple[str, ...]

    @property
    def is_intact(self) -> bool:
        return not self.findings


def digest_of(previous: str, position: int, facts: Mapping[str, Any]) -> str:
    text = json.dumps(
        [previous, position, facts], sort_keys=True, ensure_ascii=True, separators=(",", ":")
    )
    return hashlib.sha256(text.encode()).hexdigest()


def anchor_text(position: int, digest: str, at: str) -> bytes:
    """What the signature of an anchor covers."""
    return f"understudy-audit-anchor 1\n{position}\n{digest}\n{at}\n".encode()


def verify(links: Iterable[Link], anchors: Iterable[Anchor], *, most: int = 20) -> Verdict:
    """Compare the entries, in the order of their positions, with their digests and the anchors.

    Entries before the first one were deleted by retention: an anchor at the position before it
    has the digest from which the chain continues.
    """
    known = {anchor.position: anchor for anchor in anchors}
    findings = [
        f"The signature of the anchor at {anchor.position} is not valid."
        for anchor in known.values()
        if not anchor.trusted
    ]
    expected, previous, first, checked = 0, "", 0, 0
    for link in links:
        if not checked:
            first = expected = link.position
            previous, problem = _start(link.position, known)
            findings += problem
        if link.position != expected:
            findings.append(f"Entries {expected} to {link.position - 1} are missing.")
        if digest_of(previous, link.position, link.facts) != link.digest:
            findings.append(f"Entry {link.position} was changed, or an entry before it.")
        anchor = known.get(link.position)
        if anchor and anchor.trusted and anchor.digest != link.digest:
            findings.append(f"Entry {link.position} contradicts the signed anchor there.")
        checked, expected, previous = checked + 1, link.position + 1, link.digest
        if len(findings) >= most:
            findings.append("There are more findings; the verification ended here.")
            return Verdict(checked, first, link.position, len(known), tuple(findings))
    last = expected - 1 if checked else 0
    newest = max((one.position for one in known.values() if one.trusted), default=0)
    if newest > last:
        findings.append(
            f"The last entries are missing: an anchor was signed at {newest}, "
            f"the last entry is {last}."
        )
    return Verdict(checked, first, last, len(known), tuple(findings))


def _start(position: int, known: Mapping[int, Anchor]) -> tuple[str, list[str]]:
    """The digest before the first entry, and what is wrong about it."""
    if position == 1:
        return START, []
    anchor = known.get(position - 1)
    if anchor is None or not anchor.trusted:
        return "", [f"Entries before {position} are missing, and no signed anchor ends them."]
    return anchor.digest, []
