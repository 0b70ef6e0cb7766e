"""Converts a flow's MM2 settings. Given values are kept, and MM2's defaults are written out."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.migration.imports.flow_clients import ClientReader
from mirrors.domain.migration.imports.ignored_keys import judge_unknown
from mirrors.domain.migration.imports.line_verdicts import NO_COMMENT, Judgment, VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import (
    CONNECTOR_NAMES,
    OLD_NAMES,
    Entries,
    Entry,
    is_security,
)
from mirrors.domain.migration.imports.secret_references import VARIABLE
from mirrors.domain.migration.imports.transform_classes import RemoteNames
from mirrors.domain.migration.imports.transforms import EXPORTED, PREFIXES, TransformReader
from mirrors.domain.patterns.parser import without_topics
from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.settings.table import IDENTITY_POLICY, KEYS, POLICY_CLASSES
from mirrors.domain.settings.unsupported_mm2 import REFUSED
from mirrors.domain.settings.value_types import Integer, Patterns, Setting
from mirrors.domain.transforms import rules

ELSEWHERE = (
    "MirrorMaker 2's positions are in that topic, but a takeover reads only {usual}: copy the "
    "records there, with unchanged keys and values, before the flow starts"
)
# In an exported file: settings that the flow leaves to Understudy's default, not to MM2's.
UNSET = "understudy.unset"
# Policies that other distributions bring, or brought, and that keep names. No class is loaded.
_KEEPS_NAMES = frozenset(
    {
        "org.apache.kafka.connect.mirror.LegacyReplicationPolicy",
        "com.amazonaws.kafka.samples.CustomMM2ReplicationPolicy",
    }
)
_WHOLE = frozenset(
    {"enabled", "source.cluster.alias", "target.cluster.alias", "name", "connector.class"}
)
_INTERVAL = "interval.seconds"
# Connect needs others than its default for some transforms.
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


class FlowReader:
    """Reads one flow. `origins`: the entry of each property."""

    def __init__(
        self,
        name: str,
        connector: Entries,
        worker: Entries,
        clusters: Mapping[str, Entries],
        notes: VerdictCollector,
    ) -> None:
        self.name = name
        self.properties: dict[str, str] = {}
        self.origins: dict[str, Entry] = {}
        self._connector = connector
        self._worker = worker
        self._clients = ClientReader(name, connector, worker, clusters, notes)
        self._switched_off: dict[str, Entry] = {}
        self._notes = notes

    def read(self) -> dict[str, str]:
        self._read_clients()
        for name, entry in self._connector.items():
            if entry.number is not None and not _elsewhere(name):
                self._judge(name, entry)
        for name in _CONVERTERS:
            worker = self._worker.get(name)
            if name not in self._connector and worker is not None and worker.number is not None:
                self._judge(name, worker)
        self._apply_switched_off()
        if not self._has_empty_names():
            self._check_aliases()
            self._check_separator()
        self._read_delivery()
        self._check_storage()
        self._write_defaults()
        self._read_transforms()
        return self.properties

    @property
    def _is_transformed(self) -> bool:
        return bool(self._connector.get(rules.TRANSFORMS, Entry("")).value.strip())

    def _read_transforms(self) -> None:
        """Translate MM2's transforms; rules of an exported file are used as they are."""
        named = self._connector.get(rules.TRANSFORMS, Entry(""))
        is_list = named.value.lstrip().startswith("[")
        if (given := self._connector.get(EXPORTED, named if is_list else None)) is not None:
            self._judge_setting(KEYS[rules.TRANSFORMS], given)
            return
        policy, separator = (
            self.properties.get(key) or str(KEYS[key].default)
            for key in ("replication.policy.class", "replication.policy.separator")
        )
        source = self.name.partition("->")[0]
        is_same = POLICY_CLASSES[policy.strip()] == "identity"
        names = RemoteNames() if is_same else RemoteNames(source, separator.strip())
        reader = TransformReader(self.name, self._connector, names, self._notes)
        if found := reader.read():
            self._set(rules.TRANSFORMS, named, rules.format_rules(found))
        if reader.renames:
            self._set(RENAME, named, reader.renames)

    def _set(self, name: str, entry: Entry, text: str) -> None:
        self.properties[name] = text
        self.origins[name] = entry

    def _say(self, entry: Entry, verdict: Judgment, why: str) -> None:
        self._notes.say(entry, verdict, why)

    def _judge(self, name: str, entry: Entry) -> None:
        if name in KEYS:
            self._judge_setting(KEYS[name], entry)
            return
        verdict, why = judge_unknown(name, entry)
        if verdict == "used":
            self._set(name, entry, REFUSED[name].only[0])
            why = f"used for {self.name}"
        elif name in _CONVERTERS and self._is_transformed:
            verdict = "different"
            why = "records stay as bytes; rules read JSON from them and write texts as UTF-8"
        self._say(entry, verdict, why)

    def _judge_setting(self, key: Setting, entry: Entry) -> None:
        text = entry.value.strip()
        if key.name == "replication.policy.class" and text in _KEEPS_NAMES:
            self._set(key.name, entry, IDENTITY_POLICY)
            why = "no class is loaded: that policy keeps names, as IdentityReplicationPolicy does"
            self._say(entry, "different", why)
            return
        if key.name.endswith(_INTERVAL) and self._is_other_interval(key, entry, text):
            return
        if key.name == "replication.policy.separator" and text.strip("\"'") == "":
            return
        try:
            key.kind.parse(text)
        except ValueError as error:
            self._say(entry, "unsupported", _refusal(key, entry, error))
            return
        self._set(key.name, entry, text)
        self._say_used(key, entry, text)

    def _say_used(self, key: Setting, entry: Entry, text: str) -> None:
        if isinstance(key.kind, Patterns) and (dead := _dead(key, text)):
            hint = f". {NO_COMMENT}" if "#" in dead else ""
            hint = ". Remove the quotation marks" if dead[:1] in "\"'" else hint
            self._say(entry, "different", f"used, but {dead[:60]!r} matches no name{hint}")
        elif entry.key.endswith(tuple(OLD_NAMES)):
            why = f"an old name, which MirrorMaker 2 ignores since 4.0: imported as {key.name}"
            self._say(entry, "different", why)
        elif key.verdict == "different":
            self._say(entry, "used", f"used for {self.name}. {key.why}")
        else:
            self._say(entry, "used", f"used for {self.name}")

    def _is_other_interval(self, key: Setting, entry: Entry, text: str) -> bool:
        """Read intervals as MM2 does: a negative one switches off. A longer one is shortened."""
        digits = text.removeprefix("-")
        if not isinstance(key.kind, Integer) or not (digits.isascii() and digits.isdigit()):
            return False
        if text.startswith("-") and int(digits):
            switch = key.name.removesuffix(_INTERVAL) + "enabled"
            self._switched_off[switch] = entry
            why = f"a negative interval switches off: written as {switch}=false"
            self._say(entry, "different", why)
            return True
        if len(digits) > 5 and not text.startswith("-"):
            self._set(key.name, entry, str(key.kind.high))
            why = f"used for {self.name} as {key.kind.high}, the longest interval here"
            self._say(entry, "different", why)
            return True
        return False

    def _apply_switched_off(self) -> None:
        for switch, entry in self._switched_off.items():
            self._set(switch, entry, "false")

    def _has_empty_names(self) -> bool:
        """Read an empty alias with an empty separator as MM2 does: topics keep their names."""
        names = ("source.cluster.alias", "replication.policy.separator", "target.cluster.alias")
        alias, separator, other = map(self._connector.get, names)
        if alias is None or separator is None or alias.value.strip() or separator.value.strip():
            return False
        source, target = self.name.split("->")
        policy = "replication.policy.class"
        self._set(policy, separator, IDENTITY_POLICY)
        why = f"with an empty alias, topics keep their names: imported as {policy}="
        self._say(separator, "different", f"{why}{IDENTITY_POLICY}")
        why = (
            "topics keep their names. A takeover finds MirrorMaker 2's positions; checkpoints are "
            f"in {source}.checkpoints.internal here"
        )
        self._say(alias, "different", why)
        if other is not None and other.number is not None and other.value.strip() != target:
            self._say(other, "different", f"only the topic of offset syncs has it: {target} here")
        return True

    def _check_aliases(self) -> None:
        """Refuse aliases that differ from the clusters': MM2 names topics after these lines."""
        for side, alias in zip(("source", "target"), self.name.split("->"), strict=True):
            entry = self._connector.get(f"{side}.cluster.alias")
            if entry is None or entry.number is None:
                continue
            given = entry.value.strip()
            if given == alias:
                self._say(entry, "used", f"the alias of the {side} cluster of {self.name}")
                continue
            named = "remote topics" if side == "source" else "the topic of offset syncs"
            why = (
                f"{entry.key} is {given[:60]!r}, so MirrorMaker 2 names {named} after it. Here the "
                f"cluster's alias counts, which is {alias}: remove the line, or rename the cluster "
                "in the whole text"
            )
            self._say(entry, "unsupported", why)

    def _check_separator(self) -> None:
        entry = self._connector.get("replication.policy.separator")
        if entry is None or entry.number is None or entry.value.strip().strip("\"'"):
            return
        policy = self.properties.get("replication.policy.class", "")
        if POLICY_CLASSES.get(policy) == "identity":
            self._say(entry, "different", "a policy that keeps names has no separator")
            return
        alias = self.name.partition("->")[0]
        why = (
            f"an empty separator makes {alias}orders of orders, and nothing separates alias and "
            "topic any more. To keep names unchanged, write replication.policy.class="
            f"{IDENTITY_POLICY} instead"
        )
        self._say(entry, "unsupported", why)

    def _read_clients(self) -> None:
        for name, entry, text in self._clients.read():
            self._set(name, entry, text)
        if "consumer.isolation.level" not in self.properties:
            self._set("consumer.isolation.level", Entry(""), "read_uncommitted")
            self._default("consumer.isolation.level", "read_uncommitted", "read_committed")

    # --- what MM2 would do without being told -----------------------------------------------------

    def _read_delivery(self) -> None:
        if "delivery" in self.properties:
            return
        entry = self._worker.get("exactly.once.source.support", Entry(""))
        word = entry.value.strip().lower() or "disabled"
        delivery = "exactly_once" if word == "enabled" else "at_least_once"
        if word not in {"enabled", "disabled", "preparing"}:
            self._say(entry, "unsupported", f"{entry.key} must be disabled, preparing or enabled")
        elif entry.number is not None:
            self._say(entry, "used", f"used for {self.name}: written as delivery={delivery}")
        else:
            self._default("exactly.once.source.support", "disabled", "delivery=exactly_once")
        self._set("delivery", entry, delivery)

    def _check_storage(self) -> None:
        """Check where MM2 stores its positions, which a takeover reads."""
        entry = self._worker.get("offset.storage.topic")
        usual = f"mm2-offsets.{self.name.partition('->')[0]}.internal"
        if entry is not None and entry.number is not None and entry.value.strip() != usual:
            self._say(entry, "different", ELSEWHERE.format(usual=usual))
        elif entry is not None and entry.number is not None:
            self._say(entry, "used", "positions are taken over from that topic")

    def _write_defaults(self) -> None:
        unset = self._connector.get(UNSET, Entry(""))
        names = {name.strip() for name in unset.value.split(",")}
        if unset.number is not None:
            self._say(unset, "used", "these are left to Understudy's default")
        for key in KEYS.values():
            if key.mm2 and key.name not in self.properties and key.name not in names:
                if _same(key):
                    reason = f"not in the text: {key.default} here as in MirrorMaker 2"
                    self._notes.say(Entry("", None, key.name), "defaulted", reason)
                else:
                    self._set(key.name, Entry(""), key.mm2)
                    self._default(key.name, key.mm2, key.default)
        for name in CONNECTOR_NAMES & REFUSED.keys() - self.properties.keys():
            missing = REFUSED[name]
            if missing.only and missing.mm2 and missing.mm2 not in missing.only:
                reason = f"MirrorMaker 2's default is {missing.mm2}, but here {missing.why}"
                self._notes.say(Entry("", None, name), "different", reason)

    def _default(self, name: str, theirs: str, ours: str | None) -> None:
        differs = f"; Understudy's own default is {ours}" if ours else ""
        reason = f"not in the text: MirrorMaker 2's default {theirs} is written{differs}"
        self._notes.say(Entry("", None, name), "defaulted", reason)


def _refusal(key: Setting, entry: Entry, error: ValueError) -> str:
    """Return why a value is refused, with the likely cause."""
    if found := VARIABLE.search(entry.value):
        return (
            f"{entry.key} has the variable {found[1]}, which a script fills in before "
            "MirrorMaker 2 starts: write its value"
        )
    if key.name == "replication.policy.class":
        return (
            f"{entry.key} {error}. No class is loaded. If yours keeps the names of topics, write "
            f"{IDENTITY_POLICY}. If it gives other names, remove the line, and give the flow "
            f"{RENAME}"
        )
    return f"{entry.key} {error}. {NO_COMMENT}" if " #" in entry.value else f"{entry.key} {error}"


def _elsewhere(name: str) -> bool:
    """Return whether it is judged with the clusters, clients or transforms, or only enables."""
    if name in (rules.TRANSFORMS, "predicates", EXPORTED, UNSET) or name.startswith(PREFIXES):
        return True
    if name in KEYS or name in CONNECTOR_NAMES - {"security.protocol"}:
        return name in _WHOLE
    return is_security(name) or name.startswith(
        ("source.", "target.", "consumer.", "producer.", "config.providers")
    )


def _dead(key: Setting, text: str) -> str:
    """Return the first pattern that matches no name; empty if there is none."""
    elements = [element.strip() for element in text.split(",")]
    if key.name.startswith("topics"):
        return next(iter(without_topics(elements)), "")
    # Any text can be the name of a group.
    return next((one for one in elements if "#" in one or one[:1] in ('"', "'")), "")


def _same(key: Setting) -> bool:
    try:
        return key.default is not None and key.kind.parse(key.default) == key.kind.parse(key.mm2)
    except ValueError:
        return key.default == key.mm2
