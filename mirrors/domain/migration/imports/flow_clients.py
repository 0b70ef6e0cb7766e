"""Reads the properties of the clients that copy a flow's records: one consumer, one producer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from mirrors.domain.migration.imports.ignored_keys import (
    HARMLESS,
    is_idle,
    is_read,
    judge_unknown,
)
from mirrors.domain.migration.imports.line_verdicts import Judgment, VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import (
    CONNECTOR_NAMES,
    Entries,
    Entry,
    is_security,
)
from mirrors.domain.migration.imports.secret_references import same_connection
from mirrors.domain.settings import client_properties
from mirrors.domain.settings.value_types import Integer

Role = Literal["consumer", "producer"]
_SIDES: dict[Role, str] = {"consumer": "source", "producer": "target"}
_OTHER_OVERRIDES = ("consumer.override.", "admin.override.")


class ClientReader:
    """Reads the clients of one flow. `clusters`: the settings of its source and its target."""

    def __init__(
        self,
        name: str,
        connector: Entries,
        worker: Entries,
        clusters: Mapping[str, Entries],
        notes: VerdictCollector,
    ) -> None:
        self._name = name
        self._connector = connector
        self._worker = worker
        self._clusters = clusters
        self._notes = notes

    def read(self) -> Iterator[tuple[str, Entry, str]]:
        """Yield each property of a client as `consumer.…` or `producer.…`, with its value."""
        weak = _client(self._connector, "consumer.", but=_OTHER_OVERRIDES)
        yield from self._tune("consumer", weak, _client(self._connector, "source.consumer."))
        # The worker's producer writes records; the connector's writes offset syncs.
        yield from self._tune(
            "producer",
            _client(self._worker, "producer."),
            _client(self._connector, "producer.override."),
        )
        self._judge_others()

    def _judge_others(self) -> None:
        for name, entry in self._connector.items():
            own = entry.key.startswith(f"{self._name}.") and entry.number is not None
            if name.startswith(_OTHER_OVERRIDES) and entry.number is not None:
                why = "in Connect it applies to clients that a source connector does not have"
                self._notes.say(entry, "different", why)
            elif own and name.startswith(("producer.", "target.producer.", "source.producer.")):
                if not name.startswith("producer.override."):
                    why = (
                        "in MirrorMaker 2 it applies only to the producer of offset syncs, so it "
                        f"is not imported. For records write {self._name}.producer.override.…"
                    )
                    self._notes.say(entry, "different", why)
            elif own and name.startswith("target.consumer."):
                self._notes.say(entry, "different", "nothing is consumed from the target here")

    def _tune(self, role: Role, weak: Entries, strong: Entries) -> Iterator[tuple[str, Entry, str]]:
        for name, entry in weak.items():
            if name in strong and strong[name] is not entry:
                number = strong[name].number
                self._notes.say(
                    entry, "different", f"{strong[name].key} in line {number} takes precedence"
                )
        for name, entry in {**weak, **strong}.items():
            if is_security(name):
                self._check_connection(role, name, entry)
            elif (text := self._property(role, name, entry)) is not None:
                yield f"{role}.{name}", entry, text

    def _check_connection(self, role: Role, name: str, entry: Entry) -> None:
        """Compare a connection setting of one client with that of its cluster."""
        override = f"{role}.override."
        if not (entry.key.startswith(f"{self._name}.") or override in entry.key):
            return
        side = _SIDES[role]
        usual = Entry("PLAINTEXT") if name == "security.protocol" else None
        cluster = self._clusters.get(side, {}).get(name, usual)
        if cluster is not None and same_connection(name, entry.value, cluster.value):
            self._notes.say(entry, "used", f"it equals that of the {side} cluster")
            return
        where = "" if cluster is None or cluster.number is None else f" in line {cluster.number}"
        differs = f"differs from the {side} cluster's own {name}{where}"
        if cluster is None or (cluster is usual and cluster.number is None):
            differs = f"is not that of the {side} cluster, which has no {name}"
        why = (
            f"{entry.key} {differs}. MirrorMaker 2's "
            f"{role} of records would connect with it; here all clients of a cluster connect the "
            "same way, so give both the same value"
        )
        self._notes.say(entry, "unsupported", why)

    def _property(self, role: Role, name: str, entry: Entry) -> str | None:
        """Return the property's value here; None if it is not imported."""
        text, shown = entry.value, entry.key
        sentence = client_properties.refusal(role, name, text, shown=shown)
        if sentence is None:
            self._notes.say(entry, "used", f"used for {self._name} as {role}.{name}")
            return client_properties.normalised(role, name, text)
        if (bound := _bound(role, name, text)) is not None:
            number, why = bound
            why = f"used for {self._name} as {role}.{name}={number}, {why}"
            self._notes.say(entry, "different", why)
            return number
        verdict: Judgment = "unsupported"
        if is_idle(name):
            verdict = "different"
        elif (known := f"{role}.{name}") in HARMLESS:
            # MM2's own setting, written like a property of the consumer.
            verdict, sentence = "different", judge_unknown(known, entry)[1]
        elif not is_read(role, name):
            verdict, sentence = "ignored", f"{shown[:100]} is no property of Kafka's {role}"
        self._notes.say(entry, verdict, sentence)
        return None


def _bound(role: Role, name: str, text: str) -> tuple[str, str] | None:
    """Return the nearest value here of a number or of `acks`, and why; None if there is none."""
    if name == "acks" and text.strip() in {"0", "1"}:
        return "all", "since every in-sync replica acknowledges each record here"
    key = client_properties.TABLES[role].get(name)
    word = text.strip()
    if key is None or not isinstance(key.kind, Integer):
        return None
    if not word.removeprefix("-").isascii() or not word.removeprefix("-").isdigit():
        return None
    is_high = len(word) > 20 or int(word) > key.kind.high
    number = key.kind.high if is_high else key.kind.low
    return str(number), f"the {'most' if is_high else 'least'} that is possible here"


def _client(entries: Mapping[str, Entry], prefix: str, but: tuple[str, ...] = ()) -> Entries:
    return {
        name.removeprefix(prefix): entry
        for name, entry in entries.items()
        if name.startswith(prefix)
        and not name.startswith(but)
        and entry.number is not None
        and name not in CONNECTOR_NAMES
    }
