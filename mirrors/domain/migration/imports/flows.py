"""Converts a flow's MM2 settings. Given values are kept, and MM2's defaults are written out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mirrors.domain.migration.imports.ignored_keys import HARMLESS, is_idle, judge_unknown
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import (
    CONNECTOR_NAMES,
    OLD_NAMES,
    Entries,
    Entry,
    is_security,
)
from mirrors.domain.migration.imports.transform_classes import RemoteNames
from mirrors.domain.migration.imports.transforms import EXPORTED, PREFIXES, TransformReader
from mirrors.domain.settings import client_properties
from mirrors.domain.settings.table import KEYS, POLICY_CLASSES
from mirrors.domain.settings.unsupported_mm2 import REFUSED
from mirrors.domain.settings.value_types import Setting
from mirrors.domain.transforms import rules

ELSEWHERE = (
    "MirrorMaker 2's positions are in that topic, but a takeover reads only {usual}: copy the "
    "records there, with unchanged keys and values, before the flow starts"
)
Role = Literal["consumer", "producer"]
# Connect needs others than its default for some transforms.
_CONVERTERS = ("key.converter", "value.converter", "header.converter")


class FlowReader:
    """Reads one flow. `origins`: the entry of each property."""

    def __init__(
        self, name: str, connector: Entries, worker: Entries, notes: VerdictCollector
    ) -> None:
        self.name = name
        self.properties: dict[str, str] = {}
        self.origins: dict[str, Entry] = {}
        self._connector = connector
        self._worker = worker
        self._notes = notes

    def read(self) -> dict[str, str]:
        self._read_consumer()
        self._read_producer()
        for name, entry in self._connector.items():
            if entry.number is not None and not _elsewhere(name):
                self._judge(name, entry)
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

    def _set(self, name: str, entry: Entry, text: str) -> None:
        self.properties[name] = text
        self.origins[name] = entry

    def _say(
        self, entry: Entry, verdict: Literal["used", "different", "unsupported"], why: str
    ) -> None:
        self._notes.say(entry, verdict, why)

    def _judge(self, name: str, entry: Entry) -> None:
        if name in KEYS:
            self._judge_setting(KEYS[name], entry)
        elif name in REFUSED and REFUSED[name].only:
            key = REFUSED[name]
            if entry.value.strip() in key.only or entry.value.strip().lower() in key.only:
                self._set(name, entry, entry.value.strip())
                self._say(entry, "used", f"used for {self.name}")
            elif name in _CONVERTERS and self._is_transformed:
                why = "records stay as bytes; rules read JSON from them and write texts as UTF-8"
                self._say(entry, "different", why)
            else:
                words = f"{entry.key} can only be {' or '.join(key.only)}: {key.why}"
                self._say(entry, "unsupported", words)
        else:
            verdict, why = judge_unknown(name, entry.key)
            self._say(entry, verdict, why)

    def _judge_setting(self, key: Setting, entry: Entry) -> None:
        text = entry.value.strip()
        try:
            key.kind.parse(text)
        except ValueError as error:
            self._say(entry, "unsupported", f"{entry.key} {error}")
            return
        self._set(key.name, entry, text)
        if entry.key.rpartition("->")[2].endswith(tuple(OLD_NAMES)):
            why = f"an old name, which MirrorMaker 2 ignores since 4.0: imported as {key.name}"
            self._say(entry, "different", why)
        elif key.verdict == "different":
            self._say(entry, "used", f"used for {self.name}. {key.why}")
        else:
            self._say(entry, "used", f"used for {self.name}")

    # --- clients ----------------------------------------------------------------------------------

    def _read_consumer(self) -> None:
        weak = _client(self._connector, "consumer.")
        strong = _client(self._connector, "source.consumer.")
        self._tune("consumer", weak, strong)
        if "consumer.isolation.level" not in self.properties:
            self._set("consumer.isolation.level", Entry(""), "read_uncommitted")
            self._default("consumer.isolation.level", "read_uncommitted", "read_committed")

    def _read_producer(self) -> None:
        """Read the worker's producer, which writes records; the connector's writes offset syncs."""
        weak = _client(self._worker, "producer.")
        strong = _client(self._connector, "producer.override.")
        self._tune("producer", weak, strong)
        for name, entry in self._connector.items():
            own = entry.key.startswith(f"{self.name}.") and entry.number is not None
            if own and name.startswith(("producer.", "target.producer.", "source.producer.")):
                if not name.startswith("producer.override."):
                    why = (
                        "in MirrorMaker 2 it applies only to the producer of offset syncs, so it "
                        f"is not imported. For records write {self.name}.producer.override.…"
                    )
                    self._say(entry, "different", why)
            elif own and name.startswith("target.consumer."):
                self._say(entry, "different", "nothing is consumed from the target here")

    def _tune(self, role: Role, weak: Entries, strong: Entries) -> None:
        for name, entry in weak.items():
            if name in strong and strong[name] is not entry:
                number = strong[name].number
                self._say(
                    entry, "different", f"{strong[name].key} in line {number} takes precedence"
                )
        for name, entry in {**weak, **strong}.items():
            if not is_security(name):
                self._tune_one(role, name, entry)
            elif entry.key.startswith(f"{self.name}."):
                why = (
                    f"{entry.key} differs by flow; here all clients of a cluster "
                    "connect the same way"
                )
                self._say(entry, "unsupported", why)

    def _tune_one(self, role: Role, name: str, entry: Entry) -> None:
        sentence = client_properties.refusal(role, name, entry.value, shown=entry.key)
        if sentence is None:
            text = client_properties.normalised(role, name, entry.value)
            self._set(f"{role}.{name}", entry, text)
            self._say(entry, "used", f"used for {self.name} as {role}.{name}")
        elif is_idle(name):
            self._say(entry, "different", sentence)
        elif (known := f"{role}.{name}") in HARMLESS:
            # MM2's own setting, written like a property of the consumer.
            self._say(entry, "different", judge_unknown(known, entry.key)[1])
        else:
            self._say(entry, "unsupported", sentence)

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
        for key in KEYS.values():
            if key.mm2 and key.name not in self.properties:
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


def _elsewhere(name: str) -> bool:
    """Return whether it is judged with the clusters, clients or transforms, or only enables."""
    if name in (rules.TRANSFORMS, "predicates", EXPORTED) or name.startswith(PREFIXES):
        return True
    if name in KEYS or name in CONNECTOR_NAMES - {"security.protocol"}:
        return name in {"enabled", "source.cluster.alias", "target.cluster.alias"}
    return is_security(name) or name.startswith(
        ("source.", "target.", "consumer.", "producer.", "config.providers")
    )


def _client(entries: Mapping[str, Entry], prefix: str) -> Entries:
    return {
        name.removeprefix(prefix): entry
        for name, entry in entries.items()
        if name.startswith(prefix) and entry.number is not None and name not in CONNECTOR_NAMES
    }


def _same(key: Setting) -> bool:
    try:
        return key.default is not None and key.kind.parse(key.default) == key.kind.parse(key.mm2)
    except ValueError:
        return key.default == key.mm2
