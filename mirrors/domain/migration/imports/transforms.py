"""Translates MM2's `transforms` and `predicates` of a flow into rules, with the same effect.

- A predicate on a topic sees the remote topic, since MM2 names it before it transforms.
- MM2 hands undecoded bytes to transforms. Those of JSON fields fail there; here they work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirrors.domain.migration.imports.line_verdicts import LineVerdict, VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry
from mirrors.domain.migration.imports.regex_router import rename_rule
from mirrors.domain.migration.imports.transform_classes import (
    CHANGES,
    CONDITIONS,
    SETTINGS,
    UNSUPPORTED,
    Predicate,
    Record,
    Refused,
    RemoteNames,
    Step,
    simple_name,
    split_names,
)
from mirrors.domain.patterns.matcher import check_patterns
from mirrors.domain.patterns.renames import RenameMap
from mirrors.domain.replication_policy import HEARTBEATS
from mirrors.domain.transforms import rules
from mirrors.domain.transforms.rules import TransformRule

# The rules in an exported file: MM2 takes `transforms` for names, and ignores this one.
EXPORTED = "understudy.transforms"
PREFIXES = ("transforms.", "predicates.")
ROUTER = "RegexRouter"
_ALL = ".*"
_FIELDS = ("type", "predicate", "negate")
_JSON_VERDICT = (
    "reads JSON here. MirrorMaker 2 hands undecoded bytes to transforms, so this one fails "
    "there. Null and missing fields stay as they are"
)


class TransformReader:
    """Reads the transforms of one flow; each of its lines gets a verdict."""

    def __init__(
        self, flow: str, connector: Entries, names: RemoteNames, notes: VerdictCollector
    ) -> None:
        self._flow = flow
        # `topic.rename` for its RegexRouter, if any.
        self.renames = ""
        self._has_router = False
        self._names = names
        self._notes = notes
        self._entries = {
            name: entry
            for name, entry in connector.items()
            if name in ("transforms", "predicates") or name.startswith(PREFIXES)
        }

    def read(self) -> tuple[TransformRule, ...]:
        """Return the rules, empty if there are none or if a line has no translation."""
        named = self._entries.get("transforms")
        aliases = split_names(named)
        if not aliases or named is None:
            self._say_rest("different", "the flow has no transforms, so nothing uses it")
            return ()
        steps, record, is_whole = [], Record(), True
        for alias in aliases:
            try:
                if self._is_router(alias):
                    self._route(alias)
                    continue
                step = self._step(alias, named)
                self._check_after_router(step)
                CHANGES[step.kind](step, record, self._condition(step))
                self._say_step(step)
                steps.append(step)
            except Refused as refusal:
                self._say(refusal.entry, "unsupported", str(refusal))
                is_whole = False
        if not is_whole:
            self.renames = ""
        found = self._rules(steps, record, named) if is_whole and steps else ()
        if is_whole and not steps:
            self._say(named, "used", f"used for {self._flow}")
        self._say_rest("different", "neither `transforms` nor one of its predicates names it")
        return found

    # --- new names of topics ----------------------------------------------------------------------

    def _is_router(self, alias: str) -> bool:
        kind = self._entries.get(f"transforms.{alias}.type")
        return kind is not None and simple_name(kind) == ROUTER

    def _route(self, alias: str) -> None:
        """Translate a RegexRouter into `topic.rename`."""
        settings = self._below(f"transforms.{alias}.")
        kind = settings["type"]
        for field, entry in settings.items():
            if field not in ("type", "regex", "replacement"):
                raise Refused(entry, f"{field[:60]} of a {ROUTER} is not translated")
        regex, replacement = settings.get("regex"), settings.get("replacement")
        if regex is None or replacement is None:
            raise Refused(kind, f"{ROUTER} needs regex and replacement")
        if self._has_router:
            raise Refused(kind, f"a second {ROUTER} is not translated: it sees names of the first")
        self._has_router = True
        try:
            rule = rename_rule(regex.value, replacement.value, self._names)
        except ValueError as error:
            raise Refused(regex, f"it is not translated: {error}") from None
        if rule is None:
            self._say(regex, "different", "no remote topic of this flow matches it")
        else:
            self.renames = str(rule)
        for entry in settings.values():
            if not self._notes.heard(entry):
                self._say(entry, "used", f"used for {self._flow} in topic.rename")
        beats = self._names.alias + self._names.separator + HEARTBEATS
        if rule is not None and RenameMap((rule,)).decide(HEARTBEATS) is not None:
            why = f"{beats} keeps its name, which clients of MirrorMaker 2 look for"
            self._say(replacement, "different", why)

    def _check_after_router(self, step: Step) -> None:
        if self._has_router and step.predicate and step.predicate.kind == "TopicNameMatches":
            raise Refused(
                step.settings["predicate"],
                f"its predicate sees the name that {ROUTER} gives, which is not translated",
            )

    # --- lines to steps ---------------------------------------------------------------------------

    def _step(self, alias: str, named: Entry) -> Step:
        settings = self._below(f"transforms.{alias}.")
        kind = settings.get("type")
        if kind is None:
            raise Refused(named, f"it names {alias}, but transforms.{alias}.type is missing")
        name = simple_name(kind)
        if name not in CHANGES:
            for entry in settings.values():
                self._say(entry, "unsupported", f"it belongs to {alias}, which is not translated")
            why = UNSUPPORTED.get(name, "only Connect's own transforms are translated")
            raise Refused(kind, f"{name[:80]} is not translated: {why}")
        known = {*_FIELDS, *SETTINGS[name]}
        for field, entry in settings.items():
            if field not in known:
                raise Refused(entry, f"{name} has no setting {field[:60]} that is translated")
        return Step(alias, name, settings, self._predicate(settings, named))

    def _predicate(self, settings: Mapping[str, Entry], named: Entry) -> Predicate | None:
        asked = settings.get("predicate")
        if asked is None or not asked.value.strip():
            return None
        alias = asked.value.strip()
        listed = self._entries.get("predicates")
        if alias not in split_names(listed):
            raise Refused(asked, f"the list of predicates does not name {alias[:60]}")
        found = self._below(f"predicates.{alias}.")
        kind = found.get("type")
        if kind is None:
            raise Refused(listed or named, f"predicates.{alias}.type is missing")
        name = simple_name(kind)
        if name not in CONDITIONS:
            known = ", ".join(CONDITIONS)
            raise Refused(kind, f"{name[:80]} is not translated: predicates can be {known}")
        field = {"TopicNameMatches": "pattern", "HasHeaderKey": "name"}.get(name)
        if field is not None and not found.get(field, Entry("")).value:
            raise Refused(kind, f"{name} needs predicates.{alias}.{field}")
        negate = settings.get("negate", Entry("false")).value.strip().lower()
        if negate not in ("true", "false"):
            raise Refused(settings["negate"], "its value must be true or false")
        for entry in (*found.values(), *([listed] if listed else [])):
            self._say(entry, "used", f"used for {self._flow}")
        return Predicate(name, found, negate == "true")

    def _condition(self, step: Step) -> Callable[[Record], str] | None:
        """Return the expression that is true for records that the step changes."""
        predicate = step.predicate
        if predicate is None:
            return None

        def condition(record: Record) -> str:
            text = CONDITIONS[predicate.kind](predicate, record, self._names)
            return f"not ({text})" if predicate.negate else text

        return condition

    # --- steps to rules ---------------------------------------------------------------------------

    def _rules(self, steps: list[Step], record: Record, named: Entry) -> tuple[TransformRule, ...]:
        changes = {
            part: text
            for part in ("key", "value", "headers")
            if (text := getattr(record, part)) != part
        }
        where = " and ".join(record.where) or None
        if where is None and not changes:
            self._say(named, "different", "its transforms change nothing")
            return ()
        longest = max(len(text) for text in (where or "", *changes.values()))
        if longest > rules.LONGEST_EXPRESSION:
            self._say(named, "unsupported", "its transforms together are too long for one rule")
            return ()
        rule = TransformRule(topics=self._topics(steps), where=where, **changes)
        if rule.topics != _ALL:
            self._say(named, "used", f"used for {self._flow}")
            return (rule,)
        self._say(named, "used", f"used for {self._flow}; heartbeats stay as they are")
        return (TransformRule(topics=self._names.heartbeats), rule)

    def _topics(self, steps: list[Step]) -> str:
        """Return the topics of the rule: all, or those of the one predicate of every step.

        The records of other topics then pass without a rule.
        """
        patterns = {
            step.predicate.topics if step.predicate and not step.predicate.negate else None
            for step in steps
        }
        remote = patterns.pop() if len(patterns) == 1 else None
        topics = None if remote is None else self._names.source_pattern(remote)
        try:
            check_patterns([topics or ""])
        except ValueError:
            return _ALL
        return topics or _ALL

    # --- verdicts ---------------------------------------------------------------------------------

    def _say(self, entry: Entry, verdict: LineVerdict, why: str) -> None:
        if entry.number is not None:
            self._notes.say(entry, verdict, why)

    def _say_step(self, step: Step) -> None:
        for field, entry in step.settings.items():
            self._say(entry, "used", f"used for {self._flow}")
            if field == "type" and step.kind.startswith(("MaskField", "ReplaceField")):
                self._say(entry, "different", f"{step.kind} {_JSON_VERDICT}")

    def _say_rest(self, verdict: LineVerdict, why: str) -> None:
        for entry in self._entries.values():
            if not self._notes.heard(entry):
                self._say(entry, verdict, why)

    def _below(self, prefix: str) -> dict[str, Entry]:
        return {
            name.removeprefix(prefix): entry
            for name, entry in self._entries.items()
            if name.startswith(prefix)
        }
