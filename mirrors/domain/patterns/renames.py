"""The setting `topic.rename`: Java regular expressions for whole topics, each with a template.

The first rule that matches a source topic names its remote topic. As in Java's replacements, `$1`
or `${name}` in a template stands for what a group matched.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping
from typing import Final

from mirrors.domain.patterns.java_to_re2 import translate_groups
from mirrors.domain.patterns.matcher import LONGEST_ELEMENT, compile_re2
from mirrors.domain.patterns.name_sets import ALPHABET

RENAME: Final = "topic.rename"
MOST_RULES: Final = 2000
LONGEST_NAME: Final = 249
# The rules of internal topics, and the names that Kafka and MirrorMaker 2 use themselves.
# MirrorMaker 2 and a failback do not replicate topics whose names begin with a dot.
_RESERVED = ("__", "mm2-", ".")
_ARROW = "->"
# An escaped dot, and letters that have no meaning in a regular expression.
_PLAIN = re.compile(r"(?:[A-Za-z0-9_-]|\\\.)+")
_GROUP = re.compile(r"\$(?:(\d+)|\{([A-Za-z][A-Za-z0-9]*)\})")


@dataclasses.dataclass(frozen=True)
class RenameRule:
    """Topics that match `pattern` are named by `template` on the target."""

    pattern: str
    template: str

    def __str__(self) -> str:
        return f"{self.pattern} {_ARROW} {self.template}"


@dataclasses.dataclass(frozen=True)
class Renamed:
    """The name of a remote topic, by which rule; numbers begin with 1."""

    name: str
    number: int
    rule: RenameRule


class CompiledRule:
    """A rule that can be used. Raises ValueError with a clause otherwise."""

    def __init__(self, rule: RenameRule) -> None:
        if len(rule.pattern) > LONGEST_ELEMENT:
            raise ValueError(f"the expression has more than {LONGEST_ELEMENT} characters")
        try:
            text, names = translate_groups(rule.pattern)
        except ValueError as error:
            raise ValueError(f"the expression {error}") from None
        self._regex = compile_re2(text)
        self.parts = _parts(rule.template, self._regex.groups, names)
        self.literal = literal_of(rule.pattern)

    def name_of(self, topic: str) -> str | None:
        """Return the name for a topic that it matches, else None."""
        found = self._regex.fullmatch(topic)
        if found is None:
            return None
        # A group that took no part in the match adds nothing, as in Java.
        return "".join(part if isinstance(part, str) else found[part] or "" for part in self.parts)


@dataclasses.dataclass(frozen=True)
class RenameMap:
    """The rules of a flow, in their order."""

    rules: tuple[RenameRule, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rules)

    def decide(self, topic: str) -> Renamed | None:
        """Return the name by the first rule that matches; None if none does."""
        literals, patterns = _index(self.rules)
        first = literals.get(topic)
        for number in patterns:
            if first is not None and number > first:
                break
            name = _compiled(self.rules[number - 1]).name_of(topic)
            if name is not None:
                return Renamed(name, number, self.rules[number - 1])
        if first is None:
            return None
        rule = self.rules[first - 1]
        return Renamed(_compiled(rule).name_of(topic) or "", first, rule)


def parse_renames(text: str) -> tuple[RenameRule, ...]:
    """Return the rules of a text; blank is empty. Raises ValueError with a clause.

    No expression for topics contains `->`, and no template a comma.
    """
    rules: list[RenameRule] = []
    rest = text.strip()
    while rest:
        pattern, arrow, rest = rest.partition(_ARROW)
        template, comma, rest = rest.partition(",")
        rest = rest.strip()
        number = len(rules) + 1
        if not arrow or not template.strip() or pattern.strip()[:1] in ("", ","):
            raise ValueError(
                f"has no `expression {_ARROW} name` as rule {number}; rules look like "
                f"orders\\.(.*) {_ARROW} west.$1, with commas between them"
            )
        if comma and not rest:
            raise ValueError("ends with a comma")
        rules.append(RenameRule(pattern.strip(), template.strip()))
    check_renames(rules)
    return tuple(rules)


def check_renames(rules: list[RenameRule]) -> None:
    """Raise ValueError for a rule that cannot be used, or that names a topic as another one."""
    if len(rules) > MOST_RULES:
        raise ValueError(f"has {len(rules):,} rules; the limit is {MOST_RULES:,}")
    patterns: dict[str, int] = {}
    named: dict[str, int] = {}
    for number, rule in enumerate(rules, 1):
        try:
            compiled = _compiled(rule)
        except ValueError as error:
            raise ValueError(f"cannot use rule {number} ({_shown(rule)}): {error}") from None
        if (first := patterns.setdefault(rule.pattern, number)) != number:
            raise ValueError(f"has the same expression in rules {first} and {number}")
        if compiled.literal is None:
            continue
        first = named.setdefault(compiled.name_of(compiled.literal) or "", number)
        if first != number:
            raise ValueError(
                f"gives {literal_of(rules[first - 1].pattern)} (rule {first}) and "
                f"{compiled.literal} (rule {number}) one name, {rule.template}: their records "
                "would be mixed"
            )


def format_renames(rules: Iterable[RenameRule], *, separator: str = ", ") -> str:
    """Return the text of the rules, which `parse_renames` reads."""
    return separator.join(map(str, rules))


def exact_rules(names: Mapping[str, str]) -> list[RenameRule]:
    """Return a rule for each topic, with its name on the other side."""
    return [RenameRule(topic.replace(".", "\\."), names[topic]) for topic in sorted(names)]


def template_parts(rule: RenameRule) -> tuple[str | int, ...]:
    """Return the texts of a template and the numbers of its groups."""
    return _compiled(rule).parts


def literal_of(pattern: str) -> str | None:
    """Return the only topic that an expression matches; None if it may match several."""
    return pattern.replace("\\.", ".") if _PLAIN.fullmatch(pattern) else None


def name_problem(name: str) -> str | None:
    """Return a clause why no remote topic can have this name; None if one can."""
    if not name:
        return "is empty"
    if name in (".", "..") or not set(name) <= set(ALPHABET):
        return "is no name of a topic: it may have letters, digits, dots, underscores and dashes"
    if len(name) > LONGEST_NAME:
        return f"has {len(name)} characters ({name[:40]}…); Kafka allows {LONGEST_NAME}"
    if name.startswith(_RESERVED) or name.endswith((".checkpoints.internal", "heartbeats")):
        return f"is reserved ({name[:60]}): Kafka, MirrorMaker 2 or Understudy use such names"
    return None


@dataclasses.dataclass(frozen=True)
class RenameList:
    """The type of the property's value."""

    description = "rules `expression -> name` with commas between them"

    def parse(self, text: str) -> tuple[RenameRule, ...]:
        return parse_renames(text)


@functools.lru_cache(maxsize=5000)
def _compiled(rule: RenameRule) -> CompiledRule:
    return CompiledRule(rule)


@functools.lru_cache(maxsize=100)
def _index(rules: tuple[RenameRule, ...]) -> tuple[dict[str, int], tuple[int, ...]]:
    """Return the numbers of the rules for one topic each, by topic, and those of the others."""
    literals: dict[str, int] = {}
    patterns = []
    for number, rule in enumerate(rules, 1):
        if (topic := literal_of(rule.pattern)) is None:
            patterns.append(number)
        else:
            literals.setdefault(topic, number)
    return literals, tuple(patterns)


def _parts(template: str, groups: int, names: Mapping[str, int]) -> tuple[str | int, ...]:
    """Return texts and numbers of groups. Raises ValueError with a clause."""
    parts: list[str | int] = []
    at = 0
    for found in _GROUP.finditer(template):
        parts.append(template[at : found.start()])
        number, rest = _group(found, groups, names)
        parts += [number, rest]
        at = found.end()
    parts.append(template[at:])
    kept = tuple(part for part in parts if part != "")
    text = "".join(part for part in kept if isinstance(part, str))
    if not set(text) <= set(ALPHABET):
        raise ValueError(
            f"the name {template[:60]} may only have letters, digits, dots, underscores, dashes "
            "and groups such as $1"
        )
    if all(isinstance(part, str) for part in kept) and (why := name_problem(template)):
        raise ValueError(f"the name {why}")
    if isinstance(kept[0], str) and kept[0].startswith(_RESERVED):
        raise ValueError(f"the name {name_problem(kept[0])}")
    return kept


def _group(found: re.Match[str], groups: int, names: Mapping[str, int]) -> tuple[int, str]:
    """Return the number of the group, and digits that do not belong to it."""
    digits, name = found.groups()
    if name is not None:
        if name not in names:
            raise ValueError(f"the name has ${{{name}}}, but no group has this name")
        return names[name], ""
    # As Java reads it: as many digits as there are groups for, but at least one.
    number, used = int(digits[0]), 1
    while used < len(digits) and int(digits[: used + 1]) <= groups:
        used += 1
        number = int(digits[:used])
    if number > groups:
        have = "no group" if not groups else f"{groups} group{'s' if groups > 1 else ''}"
        raise ValueError(f"the name has ${number}, but the expression has {have}")
    return number, digits[used:]


def _shown(rule: RenameRule) -> str:
    text = str(rule)
    return text if len(text) <= 80 else f"{text[:80]}…"
