"""Reads the JSON of MM2's connectors on Kafka Connect: the three of a flow become one flow.

Accepts what people have: files for `POST /connectors`, answers of `GET /connectors/NAME` and of
`GET /connectors?expand=info`, and several of them one after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from mirrors.domain.migration.imports.drafts import FlowDraft, ParsedConfiguration
from mirrors.domain.migration.imports.formats.mm2_properties import rename_old
from mirrors.domain.migration.imports.formats.yaml_json import Tree, read_documents
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import (
    Entries,
    Entry,
    is_security,
    servers,
)
from mirrors.domain.migration.imports.secret_references import same_connection

KINDS = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
# What Connect's documentation calls its providers; the worker's own file is not part of the text.
USUAL_PROVIDERS = {"env": "env", "dir": "dir", "directory": "dir", "file": "file"}
SIDES = ("source", "target")
_USUAL = {"security.protocol": "PLAINTEXT", "sasl.mechanism": "GSSAPI"}
# Settings that only one connector reads; the other connectors ignore them.
_OWNED = {
    "MirrorCheckpointConnector": frozenset(
        {
            "groups", "groups.exclude", "group.filter.class", "refresh.groups.enabled",
            "refresh.groups.interval.seconds", "emit.checkpoints.enabled",
            "emit.checkpoints.interval.seconds", "sync.group.offsets.enabled",
            "sync.group.offsets.interval.seconds", "checkpoints.topic.replication.factor",
        }
    ),
    "MirrorHeartbeatConnector": frozenset(
        {
            "emit.heartbeats.enabled", "emit.heartbeats.interval.seconds",
            "heartbeats.topic.replication.factor",
        }
    ),
}  # fmt: skip
# Settings with which checkpoints find the topics of the source connector.
_SHARED = ("replication.policy.", "offset-syncs.topic.location")


def read_connect(text: str, notes: VerdictCollector) -> ParsedConfiguration:
    """Return the reading of the connectors' JSON; errors are in the notes."""
    reading = ParsedConfiguration(providers=dict(USUAL_PROVIDERS), syntax="json")
    try:
        trees = read_documents(text, is_json=True)
    except ValueError as error:
        notes.refuse("text", str(error))
        return reading
    configs = [_entries(tree, notes) for tree in _configs(trees, notes)]
    add_connectors(configs, reading, notes)
    if not any(_kind(config) in KINDS for config in configs):
        notes.refuse("connector.class", f"the text has no connector of {', '.join(KINDS)}")
    return reading


def add_connectors(
    configs: list[Entries], reading: ParsedConfiguration, notes: VerdictCollector
) -> None:
    """Add the flows and clusters of these connectors. Other connectors are left out."""
    found: dict[tuple[str, str], dict[str, Entries]] = {}
    mirrors = [config for config in configs if _kind(config) in KINDS]
    for config in configs:
        if config not in mirrors:
            _leave_out(config, notes)
    for config in mirrors:
        rename_old(config, notes)
        pair = (_alias(config, "source", notes), _alias(config, "target", notes))
        kinds = found.setdefault(pair, {})
        if _kind(config) in kinds:
            why = f"the flow {pair[0]}->{pair[1]} has a second {_kind(config)}"
            notes.say(config["connector.class"], "unsupported", why)
        kinds.setdefault(_kind(config), config)
    for (source, target), kinds in found.items():
        draft = draft_of(source, target, kinds, {}, notes)
        if draft is not None:
            reading.flows.append(draft)
            for config in kinds.values():
                for side, alias in zip(SIDES, (source, target), strict=True):
                    known = reading.clusters.setdefault(alias, {})
                    join_cluster(alias, known, _cluster(config, side), notes)


def join_cluster(alias: str, known: Entries, found: Entries, notes: VerdictCollector) -> None:
    """Add the settings of a cluster that another connector gives; a contradiction is refused."""
    usual = {name: Entry(text) for name, text in _USUAL.items()} if known else {}
    is_sasl = any("SASL" in e.get("security.protocol", Entry("")).value for e in (known, found))
    if not is_sasl:
        usual.pop("sasl.mechanism", None)
    missing = {name: entry for name, entry in usual.items() if name not in found}
    for name, entry in {**missing, **found}.items():
        before = known.get(name) or usual.get(name)
        if before is None:
            known[name] = entry
        elif same_connection(name, before.value, entry.value):
            if entry.number is None:
                continue
            known.setdefault(name, entry)
            if entry != before:
                where = f"as line {before.number} says"
                if before.number is None:
                    where = "which is the default for the connector without it"
                notes.say(entry, "used", f"used for the cluster {alias}, {where}")
        elif name == "bootstrap.servers" and servers(before.value) & servers(entry.value):
            why = f"it shares a broker with line {before.number}, whose list is used"
            notes.say(entry, "different", why)
        elif entry.number is not None or before.number is not None:
            _refuse_contradiction(alias, name, before, entry, notes)


def _refuse_contradiction(
    alias: str, name: str, before: Entry, entry: Entry, notes: VerdictCollector
) -> None:
    pair = [one for one in (before, entry) if one.number is not None]
    for one in pair:
        other = entry if one is before else before
        where = f"line {other.number} has another" if other.number else "another connector has no"
        why = (
            f"{where} {name} for {alias}; a cluster has one connection here. If these are two "
            "clusters, give one of them another alias"
        )
        notes.say(one, "unsupported", why)


def draft_of(
    source: str, target: str, kinds: dict[str, Entries], worker: Entries, notes: VerdictCollector
) -> FlowDraft | None:
    """Return one flow from its connectors; without a MirrorSourceConnector it copies nothing."""
    copies = kinds.get("MirrorSourceConnector")
    if copies is None:
        for kind, config in kinds.items():
            for entry in config.values():
                notes.say(entry, "different", f"it belongs to the {kind}, which copies no records")
            why = (
                f"{source}->{target} has a {kind}, but no MirrorSourceConnector, which copies the "
                "records: add its configuration to this text, before or after this one"
            )
            notes.say(config["connector.class"], "unsupported", why)
        return None
    owned = frozenset[str]().union(*_OWNED.values())
    merged = {name: entry for name, entry in copies.items() if name not in owned}
    for name in owned & copies.keys():
        owner = next(kind for kind, names in _OWNED.items() if name in names)
        if name not in kinds.get(owner, {}):
            why = f"MirrorMaker 2's source connector ignores it: only the {owner} reads it"
        else:
            why = f"line {kinds[owner][name].number} takes precedence: {owner}'s"
        notes.say(copies[name], "different", why)
    for kind in KINDS[1:]:
        for name, entry in kinds.get(kind, {}).items():
            if name in _OWNED[kind]:
                merged[name] = entry
            else:
                _judge_of_other(kind, name, entry, copies.get(name), notes)
    merged |= _missing(kinds, copies)
    _say_connectors(source, target, kinds, notes)
    return FlowDraft(source, target, merged, worker, copies["connector.class"])


def _judge_of_other(
    kind: str, name: str, entry: Entry, copies: Entry | None, notes: VerdictCollector
) -> None:
    """Judge a setting of a checkpoint or heartbeat connector that the source connector has too."""
    if name in _NAMES or (name.startswith(SIDES) and _is_of_cluster(name)):
        return
    if copies is not None and copies.value.strip() == entry.value.strip():
        notes.say(entry, "used", "used with that of the source connector")
    elif kind == "MirrorCheckpointConnector" and name.startswith(_SHARED):
        where = "the source connector has no"
        where = where if copies is None else f"line {copies.number} has another"
        why = f"{where} {name}, so MirrorMaker 2's checkpoints would not fit its topics"
        notes.say(entry, "unsupported", f"{why}. Give both connectors the same")
    elif copies is not None:
        why = f"line {copies.number} takes precedence: MirrorSourceConnector's"
        notes.say(entry, "different", why)
    else:
        why = f"only the {kind} has it: it replicates no records, so it is not imported"
        notes.say(entry, "different", why)


# Judged with the whole connector.
_NAMES = frozenset(
    {"name", "connector.class", "source.cluster.alias", "target.cluster.alias", "enabled"}
)


def _say_connectors(
    source: str, target: str, kinds: Mapping[str, Entries], notes: VerdictCollector
) -> None:
    for kind, config in kinds.items():
        why = f"the flow {source}->{target} does what this connector does"
        if kind == "MirrorSourceConnector":
            why = f"{source}->{target} is created, stopped until somebody starts it"
        for name in _NAMES & config.keys():
            is_class = name == "connector.class"
            notes.say(config[name], "used", why if is_class else f"used for {source}->{target}")


def _missing(kinds: dict[str, Entries], copies: Entries) -> Entries:
    """Return settings that disable what a missing connector does not do."""
    number = copies["connector.class"].number
    absent = {
        "MirrorCheckpointConnector": "emit.checkpoints.enabled",
        "MirrorHeartbeatConnector": "emit.heartbeats.enabled",
    }
    return {
        name: Entry("false", number, f"{name} (there is no {kind})")
        for kind, name in absent.items()
        if kind not in kinds
    }


def _kind(config: Entries) -> str:
    return config.get("connector.class", Entry("")).value.strip().rpartition(".")[2]


def _leave_out(config: Entries, notes: VerdictCollector) -> None:
    for entry in config.values():
        notes.say(entry, "different", "the connector is not MirrorMaker 2's: it is left out")


def _configs(trees: Iterable[Tree], notes: VerdictCollector) -> Iterator[Tree]:
    """Yield each configuration of a connector, in whatever it is wrapped."""
    for tree in trees:
        inner = tree.at("config") or tree.at("info")
        if tree.items:
            yield from _configs(tree.items, notes)
        elif "connector.class" in tree.fields:
            yield tree
        elif inner is not None:
            yield from _configs([inner], notes)
            for name, other in tree.fields.items():
                if other is not inner:
                    _say_state(name, other, notes)
        elif tree.fields and all(field.text is None for field in tree.fields.values()):
            yield from _configs(tree.fields.values(), notes)
        else:
            yield tree


def _say_state(name: str, tree: Tree, notes: VerdictCollector) -> None:
    for path, leaf in tree.leaves(name):
        why = "it is the connector's name, type or state, not its configuration"
        notes.say(Entry(leaf.text or "", leaf.number, path), "different", why)


def _entries(config: Tree, notes: VerdictCollector) -> Entries:
    entries: Entries = {}
    for name, number in config.repeated:
        why = f"line {config.fields[name].number} repeats the key, and the last one applies"
        notes.say(Entry("", number, name), "different", why)
    for name, leaf in config.fields.items():
        entry = Entry(leaf.text or "", leaf.number, name)
        if leaf.text is None:
            notes.say(entry, "unsupported", f"{name} must be text")
        entries[name] = entry
    entries.setdefault("connector.class", Entry("", config.number, "connector.class"))
    return entries


def _alias(config: Entries, side: str, notes: VerdictCollector) -> str:
    """Return a cluster's alias. MM2 requires that of the source; that of the target is `target`."""
    entry = config.get(f"{side}.cluster.alias")
    if entry is not None:
        # MM2 accepts an empty one; the flow judges it.
        return entry.value.strip() or side
    missing = Entry("", config["connector.class"].number, f"{side}.cluster.alias")
    if side == "source":
        why = "source.cluster.alias is missing, and MirrorMaker 2 requires it"
        notes.say(missing, "unsupported", why)
    else:
        notes.say(missing, "defaulted", "not in the text: MirrorMaker 2's default is target")
    return side


def _cluster(connector: Entries, side: str) -> Entries:
    """Return a cluster's settings: `source.cluster.*`, overridden by those of its clients."""
    found: Entries = {}
    for name, entry in connector.items():
        for prefix, start in ((f"{side}.cluster.", ""), (f"{side}.", "")):
            rest = name.removeprefix(prefix)
            if name.startswith(prefix) and _belongs(rest):
                found.setdefault(start + rest, entry)
    return found


def _is_of_cluster(name: str) -> bool:
    """Return whether a name that begins with a side is a connection setting of its cluster."""
    rest = name.partition(".")[2]
    return _belongs(rest.removeprefix("cluster."))


def _belongs(name: str) -> bool:
    plain = (
        name.partition(".")[2] if name.startswith(("consumer.", "producer.", "admin.")) else name
    )
    return is_security(plain)
