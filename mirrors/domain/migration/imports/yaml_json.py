"""Parses YAML and JSON to trees whose leaves have line numbers; rejects hostile texts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import yaml

DEEPEST = 30
MOST_LEAVES = 5000


@dataclasses.dataclass(frozen=True)
class Tree:
    """A mapping (`fields`), a list (`items`) or a leaf (`text`). `number` is its line."""

    number: int
    text: str | None = dataclasses.field(default=None, repr=False)
    fields: dict[str, Tree] = dataclasses.field(default_factory=dict, repr=False)
    items: tuple[Tree, ...] = dataclasses.field(default=(), repr=False)

    def at(self, *path: str) -> Tree | None:
        found: Tree | None = self
        for name in path:
            found = found.fields.get(name) if found else None
        return found

    def leaves(self, path: str = "") -> Iterator[tuple[str, Tree]]:
        """Yield every leaf with its path, such as `spec.clusters[0].alias`."""
        if self.text is not None:
            yield path, self
        for name, tree in self.fields.items():
            yield from tree.leaves(f"{path}.{name}" if path else name)
        for at, tree in enumerate(self.items):
            yield from tree.leaves(f"{path}[{at}]")


def read_tree(text: str, *, is_json: bool = False) -> Tree:
    """Return the tree. Raises ValueError with the line and the problem, never with the text."""
    if is_json:
        try:
            json.loads(text)
        except (ValueError, RecursionError) as error:
            number = getattr(error, "lineno", 1)
            raise ValueError(f"line {number} is not JSON") from None
        # JSON is YAML but for tabs between its tokens, and none can stand inside a string.
        text = text.replace("\t", " ")
    try:
        _check(text)
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is None:
            raise ValueError("the text is empty")
        return _tree(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        number = mark.line + 1 if mark else 1
        raise ValueError(f"line {number} is not {'JSON' if is_json else 'YAML'}") from None
    except (yaml.YAMLError, RecursionError):
        raise ValueError("the text contains characters that YAML does not allow") from None


def _check(text: str) -> None:
    """Reject aliases, which can make a small text endless, and deep nesting."""
    depth = leaves = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        number = event.start_mark.line + 1 if event.start_mark else 1
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ValueError(f"line {number} uses an anchor or alias; write the text out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        leaves += isinstance(event, yaml.ScalarEvent)
        if depth > DEEPEST or leaves > MOST_LEAVES:
            raise ValueError(
                f"line {number} exceeds {DEEPEST} levels or {MOST_LEAVES} names and values"
            )


def _tree(node: yaml.Node) -> Tree:
    number = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        fields: dict[str, Tree] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not name or name in fields:
                raise ValueError(
                    f"line {key.start_mark.line + 1} has a field twice, or without a name"
                )
            fields[name] = dataclasses.replace(_tree(value), number=key.start_mark.line + 1)
        return Tree(number, fields=fields)
    if isinstance(node, yaml.SequenceNode):
        return Tree(number, items=tuple(_tree(item) for item in node.value))
    word = str(node.value)
    flag = node.tag.endswith((":bool", ":null"))
    return Tree(number, text="" if node.tag.endswith(":null") else word.lower() if flag else word)
