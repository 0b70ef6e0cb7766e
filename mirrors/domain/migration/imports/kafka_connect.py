"""Reads the JSON of MM2's connectors on Kafka Connect: the three of a flow become one flow."""

from __future__ import annotations

from collections.abc import Iterator

from mirrors.domain.migration.imports.drafts import FlowDraft, ParsedConfiguration
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry, is_security
from mirrors.domain.migration.imports.yaml_json import Tree, read_tree

# The later one's value counts where two connectors of a flow differ.
KINDS = ("MirrorHeartbeatConnector", "MirrorCheckpointConnector", "MirrorSourceConnector")
# What Connect's documentation calls its providers; the worker's own file is not part of the text.
USUAL_PROVIDERS = {"env": "env", "dir": "dir", "directory": "dir", "file": "file"}
SIDES = ("source", "target")


def read_connect(text: str, notes: VerdictCollector) -> ParsedConfiguration:
    """Return the reading of the connectors' JSON; errors are in the notes."""
    reading = ParsedConfiguration(providers=dict(USUAL_PROVIDERS))
    try:
        tree = read_tree(text, is_json=True)
    except ValueError as error:
        notes.refuse("text", str(error))
        return reading
    found: dict[tuple[str, str], dict[str, Entries]] = {}
    for config in _configs(tree, notes):
        kind = config["connector.class"].value.strip().rpartition(".")[2]
        pair = tuple(_alias(config, side) for side in SIDES)
        kinds = found.setdefault((pair[0], pair[1]), {})
        if kind in kinds:
            why = f"{pair[0]}->{pair[1]} has a second {kind}"
            notes.say(config["connector.class"], "unsupported", why)
        kinds[kind] = config
    for (source, target), kinds in found.items():
        draft = draft_of(source, target, kinds, {}, notes)
        if draft is not None:
            reading.flows.append(draft)
            for side, alias in zip(SIDES, (source, target), strict=True):
                reading.clusters.setdefault(alias, {}).update(_cluster(draft.connector, side))
    if not reading.flows:
        notes.refuse("connector.class", "the text names no MirrorSourceConnector")
    return reading


def draft_of(
    source: str, target: str, kinds: dict[str, Entries], worker: Entries, notes: VerdictCollector
) -> FlowDraft | None:
    """Return one flow from its connectors; without a MirrorSourceConnector it copies nothing."""
    merged: Entries = {}
    for kind in KINDS:
        for name, entry in kinds.get(kind, {}).items():
            weaker = merged.get(name)
            if weaker is not None and weaker.value != entry.value and name not in _OWN:
                notes.say(weaker, "different", f"line {entry.number} takes precedence: {kind}'s")
            elif weaker is not None:
                notes.say(weaker, "used", "used with that of the other connectors of the flow")
            merged[name] = entry
    copies = kinds.get("MirrorSourceConnector")
    if copies is None:
        for entry in merged.values():
            why = f"{source}->{target} has no MirrorSourceConnector, so it replicates nothing"
            notes.say(entry, "unsupported", why)
        return None
    merged |= _missing(kinds, copies)
    named = copies["connector.class"]
    notes.say(named, "used", f"{source}->{target} is created, stopped until somebody starts it")
    for name in ("source.cluster.alias", "target.cluster.alias", "enabled"):
        if name in copies:
            notes.say(copies[name], "used", f"used for {source}->{target}")
    return FlowDraft(source, target, merged, worker, named)


_OWN = {"name", "connector.class"}


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


def _configs(tree: Tree, notes: VerdictCollector) -> Iterator[Entries]:
    for item in tree.items or (tree,):
        config = item.at("config") or item
        entries: Entries = {}
        for name, leaf in config.fields.items():
            entry = Entry(leaf.text or "", leaf.number, name)
            if leaf.text is None:
                notes.say(entry, "unsupported", f"{name} must be text")
            entries[name] = entry
        outer = item.at("name")
        if outer is not None and outer.text is not None and config is not item:
            entries.setdefault("name", Entry(outer.text, outer.number, "name"))
        kind = entries.get("connector.class", Entry("", item.number, "connector.class"))
        if kind.value.strip().rpartition(".")[2] in KINDS:
            yield entries
        else:
            notes.say(kind, "unsupported", f"it must be one of {', '.join(KINDS)}")


def _alias(config: Entries, side: str) -> str:
    entry = config.get(f"{side}.cluster.alias")
    return entry.value.strip() if entry is not None else side


def _cluster(connector: Entries, side: str) -> Entries:
    """Return a cluster's settings: `source.cluster.*`, overridden by those of its clients."""
    found: Entries = {}
    for name, entry in connector.items():
        for prefix, start in ((f"{side}.cluster.", ""), (f"{side}.", "")):
            rest = name.removeprefix(prefix)
            if name.startswith(prefix) and _belongs(rest):
                found.setdefault(start + rest, entry)
    return found


def _belongs(name: str) -> bool:
    plain = (
        name.partition(".")[2] if name.startswith(("consumer.", "producer.", "admin.")) else name
    )
    return is_security(plain)
