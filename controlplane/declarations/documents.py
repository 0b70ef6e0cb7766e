"""YAML files to documents, each with its file and line; a problem is a sentence with both.

A document is `kind`, `name` and `spec`, as in:

    kind: Flow
    name: primary->backup
    spec:
      properties: {topics: "orders.*"}
      desired_state: running
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from mirrors.domain.settings.table import nearest
from mirrors.domain.yaml_errors import likely_cause, line_of

# More text than thousands of flows need. Bytes of all files together.
MAX_TEXT = 2_000_000
# Each takes some queries, and all are one transaction within the time of a request.
MAX_DOCUMENTS = 2000
# No object is nested as deeply; a deeper one would end the recursion of the reader.
_DEPTH = 20
# Compiled where PyYAML has it: two megabytes take the other one half a minute.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FIELDS = ("kind", "name", "spec")
# Fields with texts: `true`, `no` and `3` below them stay as they are written.
_TEXTS = ("properties", "headers", "labels")
_LONGEST_NUMBER = 40
_HEAD = "# Objects of Understudy. `understudy apply -f FILE` creates or changes them.\n"


@dataclasses.dataclass(frozen=True)
class File:
    name: str
    text: str


@dataclasses.dataclass(frozen=True)
class Document:
    """One object as it should be. `lines`: line of each field of `spec`, counted from 1."""

    kind: str
    name: str
    spec: Mapping[str, Any]
    file: str
    line: int
    lines: Mapping[str, int]

    def where(self, field: str = "") -> str:
        """The file and the line of a field, such as `labels`, `properties.topics` or `labels.0`."""
        outer, _, inner = field.partition(".")
        names = (name for name in (field, inner, outer) if name in self.lines)
        return f"{self.file}:{self.lines.get(next(names, ''), self.line)}"


@dataclasses.dataclass(frozen=True)
class Problem:
    """`where` is `file:line`."""

    where: str
    sentence: str


def read_files(files: Sequence[File], kinds: Iterable[str]) -> tuple[list[Document], list[Problem]]:
    """All documents that can be read, and a problem for each that cannot."""
    found: list[Document] = []
    problems: list[Problem] = []
    known = tuple(kinds)
    for file in files:
        try:
            for node in _nodes(file.text):
                read = _document(node, file.name, known)
                (problems if isinstance(read, Problem) else found).append(read)  # type: ignore[arg-type]
        except yaml.MarkedYAMLError as error:
            where = f"{file.name}:{line_of(error)}"
            problems.append(Problem(where, _yaml_sentence(error, file.text)))
        except yaml.YAMLError as error:
            # A character that YAML does not allow.
            at = getattr(error, "position", 0)
            line = file.text.count("\n", 0, at) + 1 if isinstance(at, int) else 1
            words = "This is not YAML: the line has a control character. Remove it."
            problems.append(Problem(f"{file.name}:{line}", words))
    if len(found) > MAX_DOCUMENTS:
        words = f"The files have {len(found):,} documents; one request takes {MAX_DOCUMENTS:,}."
        return [], [Problem(found[MAX_DOCUMENTS].where(), f"{words} Apply them in parts.")]
    problems += _twice(found)
    return found, problems


def write_documents(documents: Iterable[Mapping[str, Any]], left_out: Iterable[str] = ()) -> str:
    """Documents as the text of a file, which `read_files` reads back to the same values.

    `left_out`: sentences for the head of the file.
    """
    plain = [_plain(document) for document in documents]
    text: str = yaml.safe_dump_all(plain, sort_keys=False, allow_unicode=True, width=100)
    sentences = [" ".join(sentence.split()) for sentence in left_out]
    head = ["# Left out:", *(f"# - {sentence}" for sentence in sentences)] if sentences else []
    return _HEAD + "".join(f"{line}\n" for line in head) + text


def _plain(value: Any) -> Any:
    """Without the serializers' own types, which YAML does not know."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)


def _nodes(text: str) -> Iterator[yaml.Node]:
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.AliasEvent):
            raise _refused("aliases (*name) are not supported; write the value again", event)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEPTH:
                raise _refused(f"more than {_DEPTH} levels", event)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    for node in yaml.compose_all(text, Loader=_LOADER):
        # An empty document between two separators.
        if not (isinstance(node, yaml.ScalarNode) and not node.value):
            yield node


def _refused(problem: str, event: yaml.Event) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def _document(node: yaml.Node, file: str, kinds: Sequence[str]) -> Document | Problem:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        return Problem(f"{file}:{line}", "A document must be a mapping with kind, name and spec.")
    if wrong := _wrong_key(node):
        return Problem(f"{file}:{wrong[1]}", wrong[0])
    parts = {str(key.value): (key.start_mark.line + 1, value) for key, value in node.value}
    if other := next((name for name in parts if name not in _FIELDS), None):
        return Problem(f"{file}:{parts[other][0]}", _not_a_field(other, parts.get("spec")))
    for name in ("kind", "name"):
        if name not in parts:
            return Problem(f"{file}:{line}", f"{name} is missing.")
        if not isinstance(parts[name][1], yaml.ScalarNode) or not parts[name][1].value:
            words = f"{name} must be a text; one with a bracket needs quotation marks."
            return Problem(f"{file}:{parts[name][0]}", words)
    kind, name = parts["kind"][1].value, parts["name"][1].value
    if not name.isprintable():
        return Problem(f"{file}:{parts['name'][0]}", "name has a control character. Remove it.")
    if kind not in kinds:
        meant = nearest(kind, kinds)
        hint = f" Did you mean {meant}?" if meant else ""
        words = f"There is no kind {kind}. Kinds: {', '.join(kinds)}.{hint}"
        return Problem(f"{file}:{parts['kind'][0]}", words)
    at, spec = parts.get("spec", (line, None))
    if spec is not None and not isinstance(spec, yaml.MappingNode):
        return Problem(f"{file}:{at}", "spec must be a mapping of fields, each as name: value.")
    lines = _lines(spec) if spec else {}
    return Document(kind, name, _value(spec) if spec else {}, file, line, lines)


def _not_a_field(name: str, spec: tuple[int, yaml.Node] | None) -> str:
    if name == "apiVersion":
        return (
            "This is a resource of Kubernetes. If it is Strimzi's, understudy import FILE --kind "
            "strimzi reads it; otherwise remove it."
        )
    hint = f" Indent {name} below spec." if spec is None or not spec[1].value else ""
    return f"{name} is not a field of a document. Fields: {', '.join(_FIELDS)}.{hint}"


def _lines(spec: yaml.MappingNode) -> dict[str, int]:
    """The line of each field, and of each key of a field that is a mapping itself."""
    inner = {
        str(key.value): key.start_mark.line + 1
        for _, value in spec.value
        if isinstance(value, yaml.MappingNode)
        for key, _ in value.value
    }
    return inner | {str(key.value): key.start_mark.line + 1 for key, _ in spec.value}


def _wrong_key(node: yaml.Node) -> tuple[str, int] | None:
    """A sentence and the line of the first key, at any depth, that is no text or given twice.

    YAML would keep the last one.
    """
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                return "The name of a field must be a text, without brackets.", line
            if str(key.value) in seen:
                return f"{key.value} is given twice.", line
            seen.add(str(key.value))
            if found := _wrong_key(value):
                return found
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            if found := _wrong_key(value):
                return found
    return None


def _value(node: yaml.Node, *, is_text: bool = False) -> Any:
    """The plain value of a node. Times stay texts: fields of the API read them."""
    if isinstance(node, yaml.MappingNode):
        return {
            str(key.value): _value(value, is_text=is_text or key.value in _TEXTS)
            for key, value in node.value
        }
    if isinstance(node, yaml.SequenceNode):
        return [_value(value, is_text=is_text) for value in node.value]
    if is_text and node.tag != "tag:yaml.org,2002:null":
        return str(node.value)
    # `12:30` is a number to YAML 1.1, and a text to a person.
    if node.tag == "tag:yaml.org,2002:timestamp" or (_is_number(node) and ":" in node.value):
        return str(node.value)
    try:
        found = yaml.constructor.SafeConstructor().construct_object(node)
        if _is_number(node) and (len(node.value) > _LONGEST_NUMBER or not math.isfinite(found)):
            raise ValueError
    except (ValueError, KeyError):
        kind = {"int": "whole number", "float": "number"}.get(node.tag.rpartition(":")[2], "value")
        problem = f"{node.value[:_LONGEST_NUMBER]} is not a {kind} that can be read"
        mark: Any = node.start_mark
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark) from None
    return found


def _is_number(node: yaml.Node) -> bool:
    return node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def _twice(documents: Sequence[Document]) -> list[Problem]:
    seen: dict[tuple[str, str], Document] = {}
    problems = []
    for one in documents:
        other = seen.setdefault((one.kind, one.name), one)
        if other is not one:
            problems.append(
                Problem(one.where(), f"{one.kind} {one.name} is also at {other.where()}.")
            )
    return problems


def _yaml_sentence(error: yaml.MarkedYAMLError, text: str) -> str:
    said = likely_cause(error, text) or error.problem or "it cannot be read"
    return f"This is not valid YAML: {said}."
