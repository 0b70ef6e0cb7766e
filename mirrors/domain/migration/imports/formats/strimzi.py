"""Reads Strimzi's KafkaMirrorMaker2, v1beta2 or v1, and KafkaConnectors of MM2's classes.

A text may have several resources: `---` between them, or a List as `kubectl get -o yaml` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mirrors.domain.migration.imports.drafts import ParsedConfiguration
from mirrors.domain.migration.imports.flows import ELSEWHERE
from mirrors.domain.migration.imports.formats.kafka_connect import (
    KINDS,
    add_connectors,
    draft_of,
    join_cluster,
)
from mirrors.domain.migration.imports.formats.mm2_properties import judge_remaining, rename_old
from mirrors.domain.migration.imports.formats.strimzi_connection import FieldReader, LoginReader
from mirrors.domain.migration.imports.formats.yaml_json import Tree, read_documents
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry
from mirrors.domain.migration.imports.secret_references import providers

_MIRROR = "org.apache.kafka.connect.mirror"
_CONNECTORS = {
    "sourceConnector": "MirrorSourceConnector",
    "checkpointConnector": "MirrorCheckpointConnector",
    "heartbeatConnector": "MirrorHeartbeatConnector",
}
_PATTERNS = {
    "topicsPattern": ("topics",),
    "topicsExcludePattern": ("topics.exclude",),
    "topicsBlacklistPattern": ("topics.exclude",),
    "groupsPattern": ("groups",),
    "groupsExcludePattern": ("groups.exclude",),
    "groupsBlacklistPattern": ("groups.exclude",),
}
# Of the Pods and the Connect cluster that Strimzi keeps: there is none here.
_PODS = (
    "apiVersion", "kind", "metadata.", "status.", "spec.version", "spec.image", "spec.replicas",
    "spec.resources.", "spec.livenessProbe.", "spec.readinessProbe.", "spec.jvmOptions.",
    "spec.jmxOptions.", "spec.logging.", "spec.clientRackInitImage", "spec.rack.",
    "spec.metricsConfig.", "spec.tracing.", "spec.template.", "spec.connectCluster",
    "spec.target.groupId", "spec.target.configStorageTopic", "spec.target.statusStorageTopic",
    "spec.externalConfiguration.",
)  # fmt: skip


def read_strimzi(text: str, notes: VerdictCollector) -> ParsedConfiguration:
    reading = ParsedConfiguration(providers={"env": "env", "dir": "dir"}, syntax="yaml")
    try:
        trees = read_documents(text)
    except ValueError as error:
        notes.refuse("text", str(error))
        return reading
    resources = list(_resources(trees))
    mirrors = [tree for tree in resources if _is_kind(tree, "KafkaMirrorMaker2")]
    connectors = [tree for tree in resources if _is_connector(tree)]
    for tree in mirrors:
        _Resource(tree, notes, reading).read()
    add_connectors([_connector_entries(tree, notes) for tree in connectors], reading, notes)
    if not mirrors and not connectors:
        why = "the text has no KafkaMirrorMaker2, and no KafkaConnector of MirrorMaker 2"
        notes.refuse("kind", why)
    elif not reading.flows and not any(tree.at("spec", "mirrors") for tree in mirrors):
        notes.refuse("spec.mirrors", "it is missing: it names the pairs to replicate")
    return reading


def _resources(trees: Iterable[Tree]) -> Iterator[Tree]:
    for tree in trees:
        items = tree.at("items")
        if _is_kind(tree, "List") and items is not None:
            yield from items.items
        else:
            yield tree


def _is_kind(tree: Tree, kind: str) -> bool:
    found = tree.at("kind")
    return found is not None and found.text == kind


def _is_connector(tree: Tree) -> bool:
    named = tree.at("spec", "class")
    word = (named.text if named else None) or ""
    return _is_kind(tree, "KafkaConnector") and word.rpartition(".")[2] in KINDS


def _connector_entries(tree: Tree, notes: VerdictCollector) -> Entries:
    leaves = FieldReader(tree, notes)
    config = tree.at("spec", "config")
    found = {name: leaves.entry(leaf) for name, leaf in config.fields.items()} if config else {}
    for field, name in (("tasksMax", "tasks.max"), ("class", "connector.class")):
        if (leaf := tree.at("spec", field)) is not None:
            found[name] = leaves.entry(leaf)
    return found


def judge_resource(text: str, reading: ParsedConfiguration, notes: VerdictCollector) -> None:
    """Add a verdict for every leaf that no cluster and no flow has used."""
    judge_remaining(reading, notes)
    try:
        trees = read_documents(text)
    except ValueError:
        return
    for tree in trees:
        inside = list(_resources([tree]))
        for resource in inside:
            _judge_leaves(resource, notes)
        for path, leaf in tree.leaves() if inside != [tree] else ():
            entry = Entry(leaf.text or "", leaf.number, path)
            if not path.startswith("items["):
                notes.say(entry, "different", "it is not a part of a resource")


def _judge_leaves(tree: Tree, notes: VerdictCollector) -> None:
    is_read = _is_kind(tree, "KafkaMirrorMaker2") or _is_connector(tree)
    for path, leaf in tree.leaves():
        entry = Entry(leaf.text or "", leaf.number, path)
        if notes.heard(entry):
            continue
        if not is_read:
            notes.say(entry, "different", "the resource is not MirrorMaker 2's: it is left out")
        elif path.startswith(_PODS) or any(f"{word}." in f"{path}." for word in _OF_CONNECTORS):
            why = "it applies to the Pods and connectors that Strimzi manages; there are none here"
            notes.say(entry, "different", why)
        elif path.endswith(".offsetStorageTopic"):
            notes.say(entry, "different", ELSEWHERE.format(usual="mm2-offsets.<source>.internal"))
        else:
            notes.say(entry, "unsupported", f"{path} has no counterpart here")


_OF_CONNECTORS = (".state", ".pause", ".listOffsets", ".alterOffsets", ".autoRestart")


class _Resource:
    def __init__(self, tree: Tree, notes: VerdictCollector, reading: ParsedConfiguration) -> None:
        self._tree = tree
        self._notes = notes
        self._reading = reading
        self._workers: dict[str, Entries] = {}
        self._leaves = FieldReader(tree, notes)

    def read(self) -> None:
        clusters = self._tree.at("spec", "clusters")
        for named in clusters.items if clusters else ():
            self._read_cluster(named)
        if (target := self._tree.at("spec", "target")) is not None:
            if target.at("alias") is None:
                self._refuse_shortened(target, self._tree.at("spec", "mirrors"))
                return
            self._read_cluster(target)
        mirrors = self._tree.at("spec", "mirrors")
        for mirror in mirrors.items if mirrors else ():
            self._read_mirror(mirror, self._leaves.text(target, "alias"))

    # --- clusters ---------------------------------------------------------------------------------

    def _read_cluster(self, tree: Tree) -> None:
        found: Entries = {}
        config = tree.at("config")
        for name, given in config.fields.items() if config else ():
            found[name] = self._leaves.entry(given)
        servers = tree.at("bootstrapServers")
        if servers is not None:
            found["bootstrap.servers"] = self._leaves.entry(servers)
        LoginReader(self._leaves, self._notes).read(tree, found)
        alias = self._leaves.text(tree, "alias")
        known = self._reading.clusters.setdefault(alias, {})
        self._reading.providers |= providers(found)
        join_cluster(alias, known, found, self._notes)
        self._workers[alias] = found
        if (leaf := tree.at("alias")) is not None:
            self._reading.named_by = self._leaves.entry(leaf)

    # --- mirrors ----------------------------------------------------------------------------------

    def _read_mirror(self, mirror: Tree, common_target: str) -> None:
        source = self._leaves.text(mirror, "sourceCluster")
        inner = mirror.at("source")
        if inner is not None and inner.at("alias") is None:
            self._refuse_shortened(inner, mirror)
            return
        if inner is not None:
            self._read_cluster(inner)
            source = self._leaves.text(inner, "alias")
        target = self._leaves.text(mirror, "targetCluster") or common_target
        kinds = {
            name: self._connector(mirror, field, tree)
            for field, name in _CONNECTORS.items()
            if (tree := mirror.at(field)) is not None
        }
        for alias in (source, target):
            if alias not in self._reading.clusters:
                why = f"the clusters do not include {alias[:60]}"
                why = why if alias else "a mirror names no source or no target cluster"
                self._notes.refuse("spec.mirrors", why)
                self._skip(mirror)
                return
        draft = draft_of(source, target, kinds, self._workers[target], self._notes)
        if draft is not None:
            self._reading.flows.append(draft)
        for pattern in _PATTERNS if "MirrorCheckpointConnector" not in kinds else ():
            leaf = mirror.at(pattern)
            if leaf is not None and pattern.startswith("groups"):
                why = "only a checkpointConnector reads it, and the mirror has none"
                self._notes.say(self._leaves.entry(leaf), "different", why)

    def _refuse_shortened(self, cluster: Tree, mirrors: Tree | None) -> None:
        """Refuse a cluster without an alias, as manuals print it with `# ...` in its place."""
        why = "the cluster has no alias and no bootstrapServers: enter them"
        entry = Entry("", cluster.number, "spec")
        if cluster.text is not None:
            entry = self._leaves.entry(cluster)
        self._notes.say(entry, "unsupported", why)
        self._skip(mirrors or Tree(cluster.number))

    def _skip(self, mirrors: Tree) -> None:
        for _, leaf in mirrors.leaves():
            entry = self._leaves.entry(leaf)
            if not self._notes.heard(entry):
                self._notes.say(entry, "different", "it belongs to a mirror that is not read")

    def _connector(self, mirror: Tree, field: str, tree: Tree) -> Entries:
        name = _CONNECTORS[field]
        found = dict(self._patterns(mirror, field))
        config = tree.at("config")
        for key, leaf in config.fields.items() if config else ():
            found[key] = self._leaves.entry(leaf)
        rename_old(found, self._notes)
        if (tasks := tree.at("tasksMax")) is not None:
            found["tasks.max"] = self._leaves.entry(tasks)
        found["connector.class"] = Entry(f"{_MIRROR}.{name}", tree.number, f"{field}")
        return found

    def _patterns(self, mirror: Tree, field: str) -> Iterator[tuple[str, Entry]]:
        for pattern, names in _PATTERNS.items():
            leaf = mirror.at(pattern)
            fits = pattern.startswith("topics") or field == "checkpointConnector"
            if leaf is not None and fits:
                for name in names:
                    yield name, self._leaves.entry(leaf)
