"""One setting of a flow, as the tables of settings hold it."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.keys.values import Kind

Verdict = Literal["honoured", "different", "ours", "fixed", "refused"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    """One setting of a flow. `default` is ours and `mm2` is MM2's, as a person would write them.

    honoured: as MM2. different: as MM2 but for what `why` says. ours: MM2 has no such key.
    fixed: only the values in `only` are accepted. refused: `why` says why.
    """

    name: str
    verdict: Verdict
    meaning: str
    default: str | None = None
    mm2: str = ""
    why: str = ""
    only: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting(Key):
    """A key that a flow takes, and how its text is read."""

    kind: Kind

    @property
    def field(self) -> str:
        return self.name.replace(".", "_").replace("-", "_")
