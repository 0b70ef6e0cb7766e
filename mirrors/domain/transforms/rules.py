"""The rules of a flow's property `transforms`: a JSON list, one element for each rule.

The first rule whose `topics` matches the whole source topic applies to it. A topic without a rule
is copied unchanged. Expressions are Spark SQL over the columns of a record (`expressions`).
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.transforms.modules import Module, modules_in

# The property of a flow.
TRANSFORMS: Final = "transforms"

# The property of a flow that names the topic of failed records, and how its default begins.
DEAD_LETTER_TOPIC: Final = "dead.letter.topic"
_DEAD_LETTERS: Final = "dead-letters."

# What happens to a record for which an expression fails: its partition stops before it, or the
# record is written to the dead-letter topic and the partition continues.
ErrorAction = Literal["stop", "dead_letter"]

ERROR_ACTIONS: Final = get_args(ErrorAction)
EXPRESSION_FIELDS: Final = ("where", "topic", "key", "value", "headers")
LONGEST_EXPRESSION: Final = 10_000
MOST_RULES: Final = 100
MOST_ROUTES: Final = 20
_FIELDS = ("topics", *EXPRESSION_FIELDS, "routes", "modules", "provenance", "on_error")
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class InvalidRule(ValueError):
    """A rule cannot be used. `number` counts from 1 and is 0 for the whole list.

    `field` is empty for the whole rule. The text contains both, without a period.
    """

    def __init__(self, problem: str, *, number: int = 0, field: str = "") -> None:
        where = ", ".join(filter(None, (f"rule {number}" if number else "", field)))
        super().__init__(f"{where}: {problem}" if where else problem)
        self.problem = problem
        self.number = number
        self.field = field


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransformRule:
    """The topics of a rule (a Java regular expression), and its Spark SQL expressions.

    - `where`: boolean; a record for which it is not true is dropped.
    - `key`, `value`, `headers`: replace that part of the record.
    - `topic`: the topic on the target for the record: one of `routes`, or null for the topic that
      the replication policy names. Another result is a failed expression.
    - None leaves records or that part unchanged.
    - `provenance`: headers with the origin of a record are added (`headers.provenance_headers`).
    - `on_error`: what happens to a record for which an expression fails.
    - `modules`: the user code that its expressions call.
    """

    topics: str
    where: str | None = None
    key: str | None = None
    value: str | None = None
    headers: str | None = None
    topic: str | None = None
    routes: tuple[str, ...] = ()
    provenance: bool = False
    on_error: ErrorAction = "stop"
    modules: tuple[Module, ...] = ()

    @property
    def expressions(self) -> dict[str, str]:
        """The expressions that it has, by field."""
        texts = ((field, getattr(self, field)) for field in EXPRESSION_FIELDS)
        return {field: text for field, text in texts if text is not None}

    @property
    def is_active(self) -> bool:
        """Whether it drops or changes records. Otherwise it exempts its topics."""
        return bool(self.expressions) or self.provenance

    @property
    def drops_records(self) -> bool:
        """Whether records of its topics may be missing on the target."""
        return self.where is not None or bool(self.routes) or self.on_error == "dead_letter"


@dataclasses.dataclass(frozen=True)
class RuleList:
    """The type of the property's value. Expressions are not checked: `sql.rule_problems` does."""

    description = "a JSON list of rules in one line"

    def parse(self, text: str) -> tuple[TransformRule, ...]:
        try:
            return parse_rules(text)
        except InvalidRule as error:
            raise ValueError(f"cannot be used: {error}") from None


def parse_rules(text: str) -> tuple[TransformRule, ...]:
    """Return the rules of a property's text, empty for blank text. Raises InvalidRule.

    Expressions are not checked.
    """
    if not text.strip():
        return ()
    elements = _elements(text)
    return tuple(_rule(element, number) for number, element in enumerate(elements, 1))


def format_rules(rules: Sequence[TransformRule], *, indent: int | None = None) -> str:
    """Return the property's text, empty without rules. `parse_rules` reads it.

    One line for storage; with an indentation for people, a line for each field.
    """
    if not rules:
        return ""
    elements = [{"topics": rule.topics, **rule.expressions, **_choices(rule)} for rule in rules]
    text = json.dumps(elements, ensure_ascii=False)
    return json.dumps(elements, ensure_ascii=not text.isprintable(), indent=indent)


def _choices(rule: TransformRule) -> dict[str, Any]:
    """The fields of a rule that differ from their defaults, without its expressions."""
    routes: dict[str, Any] = {"routes": list(rule.routes)} if rule.routes else {}
    if rule.modules:
        routes["modules"] = dict(rule.modules)
    provenance = {"provenance": True} if rule.provenance else {}
    return routes | provenance | ({} if rule.on_error == "stop" else {"on_error": rule.on_error})


def in_one_line(text: str) -> str:
    """Return the property's text as it is stored; one that cannot be parsed, unchanged."""
    if text.isprintable():
        return text
    try:
        return format_rules(parse_rules(text))
    except InvalidRule:
        return text


def first_match(topic: str, rules: Sequence[TransformRule]) -> tuple[int, TransformRule] | None:
    """Return the rule of a source topic and its number from 1; None if no rule matches."""
    for number, rule in enumerate(rules, 1):
        if _pattern(rule.topics).matches(topic):
            return number, rule
    return None


def effect_of(topic: str, rules: Sequence[TransformRule]) -> str:
    """Return which rule applies to a source topic, and what it does, as a clause."""
    match = first_match(topic, rules)
    if match is None:
        return "is copied unchanged: no rule matches it"
    number, rule = match
    named = f"rule {number} ({rule.topics})"
    changed = [field for field in EXPRESSION_FIELDS[2:] if field in rule.expressions]
    acts = ["drops records"] if rule.where is not None else []
    acts += [f"changes {' and '.join(changed)}"] if changed else []
    acts += ["adds headers with the origin"] if rule.provenance else []
    acts += [f"routes records to {', '.join(rule.routes)}"] if rule.routes else []
    acts += [f"runs {module}" for module in rule.modules]
    if not acts:
        return f"is copied unchanged: {named} exempts it"
    *first, last = acts
    does = f"{named} {', '.join(first)}{' and ' if first else ''}{last}"
    if rule.on_error == "dead_letter":
        does += "; records for which it fails go to the dead-letter topic"
    return does


def rule_number(topic: str, rules: Sequence[TransformRule]) -> int | None:
    """Return the number from 1 of the rule that filters or changes records of a source topic."""
    match = first_match(topic, rules)
    return match[0] if match is not None and match[1].is_active else None


def rule_for(topic: str, rules: Sequence[TransformRule]) -> TransformRule | None:
    """Return the rule that changes the records of a source topic; None if nothing does.

    A rule without an expression exempts its topics from later rules.
    """
    number = rule_number(topic, rules)
    return None if number is None else rules[number - 1]


def routes_of(topic: str, rules: Sequence[TransformRule]) -> tuple[str, ...]:
    """Return the further topics on the target for records of a source topic."""
    rule = rule_for(topic, rules) if rules else None
    return () if rule is None else rule.routes


def dead_letter_topic(rules: Sequence[TransformRule], named: str | None, source: str) -> str | None:
    """Return the topic on the target for records for which a rule fails; None if no rule uses it.

    `named`: the setting. `source`: the alias of the source, which the default contains.
    """
    if not any(rule.on_error == "dead_letter" for rule in rules):
        return None
    return named or f"{_DEAD_LETTERS}{source}"


def drops_records(topic: str, rules: Sequence[TransformRule]) -> bool:
    """Return whether records of a source topic may not be copied, so that a count is at most."""
    rule = rule_for(topic, rules)
    return rule is not None and rule.drops_records


def is_same_rule(topic: str, one: Sequence[TransformRule], two: Sequence[TransformRule]) -> bool:
    """Return whether both lists do the same to the records of a source topic."""
    rules = (rule_for(topic, rules) for rules in (one, two))
    effects = [
        ({}, (), False, ())
        if rule is None
        else (rule.expressions, tuple(sorted(rule.routes)), rule.provenance, rule.modules)
        for rule in rules
    ]
    return effects[0] == effects[1]


def _elements(text: str) -> list[Any]:
    if not text.lstrip().startswith("["):
        raise InvalidRule(
            'must be a JSON list of rules, such as [{"topics": "orders", "where": "value is not '
            "null\"}]; MirrorMaker 2's list of names works only in an import"
        )
    try:
        # Expressions may have several lines.
        elements = json.loads(text, object_pairs_hook=tuple, strict=False)
    except json.JSONDecodeError as error:
        place = f"at line {error.lineno}, character {error.colno}"
        raise InvalidRule(f"is not JSON: {error.msg}, {place} ({_near(text, error.pos)})") from None
    except RecursionError:
        raise InvalidRule("is not a list of rules: its values are nested too deeply") from None
    if len(elements) > MOST_RULES:
        raise InvalidRule(f"has {len(elements)} rules; the limit is {MOST_RULES}")
    return list(elements)


def _near(text: str, position: int) -> str:
    return f"near {text[max(position - 10, 0) : position + 10]!r}"


def _rule(element: Any, number: int) -> TransformRule:
    # A tuple of pairs, since a dict would hide a name that occurs twice.
    if not isinstance(element, tuple):
        raise InvalidRule(f"must be an object in braces, not {_kind(element)}", number=number)
    fields = dict(element)
    for field, _ in element:
        if field not in _FIELDS:
            raise InvalidRule(_unknown(field), number=number)
    if len(fields) < len(element):
        names = [field for field, _ in element]
        twice = next(field for field in names if names.count(field) > 1)
        raise InvalidRule("occurs twice", number=number, field=twice)
    on_error = _error_action(fields.get("on_error"), number)
    texts = {
        field: _expression(fields[field], number, field)
        for field in EXPRESSION_FIELDS
        if fields.get(field) is not None
    }
    if on_error == "dead_letter" and not texts:
        problem = "needs an expression: this rule has none that can fail"
        raise InvalidRule(problem, number=number, field="on_error")
    provenance = fields.get("provenance")
    if provenance is not None and not isinstance(provenance, bool):
        problem = "must be true, which adds headers with the origin of each record, or false"
        raise InvalidRule(problem, number=number, field="provenance")
    return TransformRule(
        topics=_topics(fields, number),
        routes=_routes(fields.get("routes"), "topic" in texts, number),
        provenance=bool(provenance),
        on_error=on_error,
        modules=_modules(fields.get("modules"), number),
        **texts,
    )


def _unknown(field: str) -> str:
    meant = difflib.get_close_matches(field, _FIELDS, n=1, cutoff=0.6)
    hint = f" (did you mean {meant[0]}?)" if meant else f"; fields are {', '.join(_FIELDS)}"
    return f"has the unknown field {field[:50]!r}{hint}"


def _error_action(action: Any, number: int) -> ErrorAction:
    if action is None:
        return "stop"
    if action not in ERROR_ACTIONS:
        problem = (
            "must be stop, which stops the partition of a record for which an expression fails, "
            "or dead_letter, which writes the record to the dead-letter topic"
        )
        raise InvalidRule(problem, number=number, field="on_error")
    found: ErrorAction = action
    return found


def _topics(element: dict[str, Any], number: int) -> str:
    text = element.get("topics")
    if text is None:
        problem = "is missing: say which source topics the rule applies to, .* for all"
        raise InvalidRule(problem, number=number, field="topics")
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        problem = f"must be a printable regular expression in quotes, not {_kind(text)}"
        raise InvalidRule(problem, number=number, field="topics")
    try:
        _pattern(text)
    except ValueError as error:
        raise InvalidRule(str(error), number=number, field="topics") from None
    return text


def _routes(names: Any, has_topic: bool, number: int) -> tuple[str, ...]:
    """The target topics of a rule. Raises InvalidRule."""
    if names is None or names == []:
        if has_topic:
            problem = "needs routes: list the topics on the target that it may give"
            raise InvalidRule(problem, number=number, field="topic")
        return ()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        problem = f"must be a list of topic names in quotes, not {_kind(names)}"
        raise InvalidRule(problem, number=number, field="routes")
    if not has_topic:
        problem = "needs topic: an expression that gives one of these names, or null"
        raise InvalidRule(problem, number=number, field="routes")
    for name in names:
        if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
            problem = (
                f"contains {name[:50]!r}, which is no topic name: up to 249 letters, digits, dots, "
                "underscores and dashes"
            )
            raise InvalidRule(problem, number=number, field="routes")
    # Kafka rejects names that differ only in dots and underscores.
    if len({name.replace(".", "_") for name in names}) < len(names):
        problem = "names a topic twice, or two that differ only in dots and underscores"
        raise InvalidRule(problem, number=number, field="routes")
    if len(names) > MOST_ROUTES:
        problem = f"has {len(names)} topics; the limit is {MOST_ROUTES}"
        raise InvalidRule(problem, number=number, field="routes")
    return tuple(names)


def _modules(raw: Any, number: int) -> tuple[Module, ...]:
    if raw is None:
        return ()
    try:
        return modules_in(raw)
    except ValueError as error:
        raise InvalidRule(str(error), number=number, field="modules") from None


def _expression(text: Any, number: int, field: str) -> str:
    if not isinstance(text, str):
        problem = f"must be a Spark SQL expression in quotes, not {_kind(text)}"
        raise InvalidRule(problem, number=number, field=field)
    if not text.strip():
        raise InvalidRule("is empty: remove the field", number=number, field=field)
    if len(text) > LONGEST_EXPRESSION:
        problem = f"has {len(text)} characters; the limit is {LONGEST_EXPRESSION}"
        raise InvalidRule(problem, number=number, field=field)
    # A browser ends lines with both.
    return text.replace("\r\n", "\n")


def _kind(value: Any) -> str:
    if value == "":
        return "empty text"
    names = {tuple: "an object", list: "a list", str: "other text", bool: "true or false"}
    return names.get(type(value), "null" if value is None else "a number")


@functools.lru_cache(maxsize=2000)
def _pattern(text: str) -> NamePatterns:
    return NamePatterns([text])
