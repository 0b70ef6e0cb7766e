"""The impact of an edit, shown before it is saved: changed settings, and what they restart."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Self

from django.http import HttpRequest


@dataclasses.dataclass(frozen=True)
class Change:
    name: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True)
class Impact:
    """Changes with their consequences. `digest` ties the confirmation to what was shown."""

    changes: tuple[Change, ...]
    sentences: tuple[str, ...]
    digest: str

    @classmethod
    def of(cls, changes: Sequence[Change], restarts: Sequence[str], *, calm: str) -> Self:
        sentences = tuple(restarts) or (f"Nothing restarts. {calm}",)
        text = json.dumps([[dataclasses.astuple(change) for change in changes], sentences])
        return cls(tuple(changes), sentences, hashlib.sha256(text.encode()).hexdigest()[:16])

    def agreed(self, request: HttpRequest) -> bool:
        """Whether the person has confirmed exactly these consequences."""
        return request.POST.get("apply") == "yes" and request.POST.get("seen") == self.digest


def changes_between(before: dict[str, str], after: dict[str, str]) -> list[Change]:
    names = sorted({*before, *after})
    return [
        Change(name, before.get(name, ""), after.get(name, ""))
        for name in names
        if before.get(name, "") != after.get(name, "")
    ]
