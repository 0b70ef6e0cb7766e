"""Reads a Strimzi KafkaMirrorMaker2 resource, v1beta2 or v1, as clusters and flows."""

from __future__ import annotations

from collections.abc import Iterator

from mirrors.domain.migration.imports.drafts import ParsedConfiguration
from mirrors.domain.migration.imports.flows import ELSEWHERE
from mirrors.domain.migration.imports.kafka_connect import draft_of
from mirrors.domain.migration.imports.line_verdicts import VerdictCollector
from mirrors.domain.migration.imports.mm2_precedence import Entries, Entry
from mirrors.domain.migration.imports.mm2_properties import judge_remaining
from mirrors.domain.migration.imports.strimzi_connection import FieldReader, LoginReader
from mirrors.domain.migration.imports.yaml_json import Tree, read_tree

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
)  # fmt: skip


def read_strimzi(text: str, notes: VerdictCollector) -> ParsedConfiguration:
    reading = ParsedConfiguration(providers={"env": "env", "dir": "dir"})
    try:
        tree = read_tree(text)
    except ValueError as error:
        notes.refuse("text", str(error))
        return reading
    kind = tree.at("kind")
    if kind is None or kind.text != "KafkaMirrorMaker2":
        notes.refuse("kind", "the resource is not a KafkaMirrorMaker2")
        return reading
    _Resource(tree, notes, reading).read()
    return reading


def judge_resource(text: str, reading: ParsedConfiguration, notes: VerdictCollector) -> None:
    """Add a verdict for every leaf that no cluster and no flow has used."""
    judge_remaining(reading, notes)
    try:
        tree = read_tree(text)
    except ValueError:
        return
    for path, leaf in tree.leaves():
        entry = Entry(leaf.text or "", leaf.number, path)
        if notes.heard(entry):
            continue
        if path.startswith(_PODS) or ".autoRestart" in path or path.endswith((".state", ".pause")):
            why = "it applies to the Pods and connectors that Strimzi manages; there are none here"
            notes.say(entry, "different", why)
        elif path.endswith(".offsetStorageTopic"):
            notes.say(entry, "different", ELSEWHERE.format(usual="mm2-offsets.<source>.internal"))
        else:
            notes.say(entry, "unsupported", f"{path} has no counterpart here")


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
            self._read_cluster(target)
        mirrors = self._tree.at("spec", "mirrors")
        for mirror in mirrors.items if mirrors else ():
            self._read_mirror(mirror, self._leaves.text(target, "alias"))
        if not self._reading.flows:
            self._notes.refuse("spec.mirrors", "none of them has a sourceConnector")

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
        self._reading.clusters[alias] = found
        self._workers[alias] = found
        if (leaf := tree.at("alias")) is not None:
            self._reading.named_by = self._leaves.entry(leaf)

    # --- mirrors ----------------------------------------------------------------------------------

    def _read_mirror(self, mirror: Tree, common_target: str) -> None:
        source = self._leaves.text(mirror, "sourceCluster")
        inner = mirror.at("source")
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
                why = f"{alias[:60] or 'a cluster without an alias'} is not among the clusters"
                self._notes.refuse("spec.mirrors", why)
                return
        draft = draft_of(source, target, kinds, self._workers[target], self._notes)
        if draft is not None:
            self._reading.flows.append(draft)

    def _connector(self, mirror: Tree, field: str, tree: Tree) -> Entries:
        name = _CONNECTORS[field]
        found = dict(self._patterns(mirror, field))
        config = tree.at("config")
        for key, leaf in config.fields.items() if config else ():
            found[key] = self._leaves.entry(leaf)
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
