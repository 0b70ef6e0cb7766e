"""Parses YAML and JSON to trees whose leaves have line numbers; rejects hostile texts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

import yaml

from mirrors.domain.yaml_errors import likely_cause, line_of

DEEPEST = 30
MOST_LEAVES = 5000


@dataclasses.dataclass(frozen=True)
class Tree:
    """A mapping (`fields`), a list (`items`) or a leaf (`text`). `number` is its line."""

    number: int
    text: str | None = dataclasses.field(default=None, repr=False)
    fields: dict[str, Tree] = dataclasses.field(default_factory=dict, repr=False)
    items: tuple[Tree, ...] = dataclasses.field(default=(), repr=False)
    # Fields that JSON repeats: all but the last, which counts. Each with its line.
    repeated: tuple[tuple[str, int], ...] = ()

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


def read_documents(text: str, *, is_json: bool = False) -> list[Tree]:
    """Return the documents of a text: YAML with `---` between them, or JSON one after another.

    Raises ValueError with the line and the problem, never with the text.
    """
    if is_json:
        return [tree for piece in _json_pieces(text) for tree in _compose(piece, "JSON")]
    return _compose(text, "YAML")


def _json_pieces(text: str) -> Iterator[str]:
    """Yield each JSON value, after the line breaks before it, so that line numbers stay."""
    decoder, at = json.JSONDecoder(), 0
    while (begin := _skip(text, at)) < len(text):
        try:
            _, at = decoder.raw_decode(text, begin)
        except (ValueError, RecursionError) as error:
            number = getattr(error, "lineno", text.count("\n", 0, begin) + 1)
            raise ValueError(f"line {number} is not JSON{_json_hint(error, text)}") from None
        # JSON is YAML but for tabs between its tokens, and none can stand inside a string.
        yield "\n" * text.count("\n", 0, begin) + text[begin:at].replace("\t", " ")


def _json_hint(error: Exception, text: str) -> str:
    """Return the likely cause of a text that is not JSON."""
    if not isinstance(error, json.JSONDecodeError):
        return ""
    line = text.splitlines()[error.lineno - 1] if text.splitlines() else ""
    if line.lstrip().startswith(("//", "#", "/*")):
        return ": JSON has no comments"
    if error.msg.startswith("Expecting ',' delimiter"):
        why = 'a comma is missing before it, or a quotation mark inside a value is not written \\"'
        return f": {why}"
    if "trailing comma" in error.msg or "double quotes" in error.msg:
        why = "a comma before it is one too many, or a name is not in double quotation marks"
        return f": {why}"
    return ""


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _compose(text: str, kind: str) -> list[Tree]:
    try:
        _check(text)
        nodes = list(yaml.compose_all(text, Loader=yaml.SafeLoader))
        is_json = kind == "JSON"
        found = [_tree(node, is_json=is_json) for node in nodes if node is not None]
    except yaml.MarkedYAMLError as error:
        cause = likely_cause(error, text)
        hint = f": {cause}" if cause else ""
        raise ValueError(f"line {line_of(error)} is not {kind}{hint}") from None
    except (yaml.YAMLError, RecursionError):
        raise ValueError("the text contains characters that YAML does not allow") from None
    if not found:
        raise ValueError("the text is empty")
    return found


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


def _tree(node: yaml.Node, *, is_json: bool) -> Tree:
    number = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        fields: dict[str, Tree] = {}
        repeated = []
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            at = key.start_mark.line + 1
            if not name:
                raise ValueError(f"line {at} has a field without a name")
            if name in fields and not is_json:
                first = fields[name].number
                raise ValueError(f"line {at} has the field {name[:60]} of line {first} again")
            if name in fields:
                repeated.append((name, fields[name].number))
            fields[name] = dataclasses.replace(_tree(value, is_json=is_json), number=at)
        return Tree(number, fields=fields, repeated=tuple(repeated))
    if isinstance(node, yaml.SequenceNode):
        return Tree(number, items=tuple(_tree(item, is_json=is_json) for item in node.value))
    word = str(node.value)
    flag = node.tag.endswith((":bool", ":null"))
    return Tree(number, text="" if node.tag.endswith(":null") else word.lower() if flag else word)
