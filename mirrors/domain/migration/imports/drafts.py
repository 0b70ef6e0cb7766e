"""The output of each reader: clusters and flows with MM2's settings, line by line."""

from __future__ import annotations

import dataclasses
from typing import Literal

from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry

Syntax = Literal["properties", "json", "yaml"]


@dataclasses.dataclass(frozen=True)
class FlowDraft:
    """A flow in the text: the settings that its connectors and its worker would get."""

    source: str
    target: str
    connector: Entries
    worker: Entries
    wanted_by: Entry

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    def without(self, keys: set[str]) -> FlowDraft:
        """Return the draft without settings that belong to a cluster as a whole."""
        connector, worker = (
            {name: entry for name, entry in entries.items() if entry.key not in keys}
            for entries in (self.connector, self.worker)
        )
        return dataclasses.replace(self, connector=connector, worker=worker)


@dataclasses.dataclass
class ParsedConfiguration:
    """The result. `providers`: config providers as env, dir, file, or an unsupported class.

    `syntax`: how a line of the text is written, for sentences that show one.
    """

    clusters: dict[str, Entries] = dataclasses.field(default_factory=dict)
    flows: list[FlowDraft] = dataclasses.field(default_factory=list)
    providers: dict[str, str] = dataclasses.field(default_factory=dict)
    syntax: Syntax = "properties"
    named_by: Entry = dataclasses.field(default_factory=lambda: Entry("", None, "clusters"))
