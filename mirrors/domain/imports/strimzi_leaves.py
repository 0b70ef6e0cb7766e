"""The leaves of a Strimzi resource as entries, with path and line; what is used is heard."""

from __future__ import annotations

from mirrors.domain.imports.lines import Notes
from mirrors.domain.imports.mm2_file import Entry
from mirrors.domain.trees import Tree


class Leaves:
    def __init__(self, tree: Tree, notes: Notes) -> None:
        self._notes = notes
        self._paths = {id(leaf): path for path, leaf in tree.leaves()}

    def entry(self, leaf: Tree) -> Entry:
        return Entry(leaf.text or "", leaf.number, self._paths[id(leaf)])

    def text(self, tree: Tree | None, name: str) -> str:
        """What the field says, empty when it is not there; it counts as used as it stands."""
        leaf = tree.at(name) if tree else None
        if leaf is None or leaf.text is None:
            return ""
        self._notes.say(self.entry(leaf), "used", "used as it stands")
        return leaf.text
