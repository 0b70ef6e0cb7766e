"""A Strimzi KafkaMirrorMaker2 resource, v1beta2 or v1, as clusters and flows in MM2's words."""

from __future__ import annotations

from collections.abc import Iterator

from mirrors.domain.imports.connect import draft_of
from mirrors.domain.imports.flows import ELSEWHERE
from mirrors.domain.imports.lines import Notes
from mirrors.domain.imports.mm2 import judge_left
from mirrors.domain.imports.mm2_file import Entries, Entry
from mirrors.domain.imports.reading import Reading
from mirrors.domain.imports.references import jaas_line
from mirrors.domain.trees import Tree, read_tree

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
_SECRETS = "/run/secrets"
_SASL = {"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"}


def read_strimzi(text: str, notes: Notes) -> Reading:
    reading = Reading(providers={"env": "env", "dir": "dir"})
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


def judge_resource(text: str, reading: Reading, notes: Notes) -> None:
    """A verdict for every leaf that no cluster and no flow has used."""
    judge_left(reading, notes)
    try:
        tree = read_tree(text)
    except ValueError:
        return
    for path, leaf in tree.leaves():
        entry = Entry(leaf.text or "", leaf.number, path)
        if notes.heard(entry):
            continue
        if path.startswith(_PODS) or ".autoRestart" in path or path.endswith((".state", ".pause")):
            why = "it is of the Pods and connectors that Strimzi keeps; there are none here"
            notes.say(entry, "different", why)
        elif path.endswith(".offsetStorageTopic"):
            notes.say(entry, "different", ELSEWHERE.format(usual="mm2-offsets.<source>.internal"))
        else:
            notes.say(entry, "unsupported", f"{path} has no counterpart here")


class _Resource:
    def __init__(self, tree: Tree, notes: Notes, reading: Reading) -> None:
        self._tree = tree
        self._notes = notes
        self._reading = reading
        self._workers: dict[str, Entries] = {}
        self._paths = {id(leaf): path for path, leaf in tree.leaves()}

    def read(self) -> None:
        clusters = self._tree.at("spec", "clusters")
        for named in clusters.items if clusters else ():
            self._read_cluster(named)
        if (target := self._tree.at("spec", "target")) is not None:
            self._read_cluster(target)
        mirrors = self._tree.at("spec", "mirrors")
        for mirror in mirrors.items if mirrors else ():
            self._read_mirror(mirror, self._text(target, "alias"))
        if not self._reading.flows:
            self._notes.refuse("spec.mirrors", "none of them has a sourceConnector")

    def _entry(self, leaf: Tree) -> Entry:
        return Entry(leaf.text or "", leaf.number, self._paths[id(leaf)])

    def _text(self, tree: Tree | None, name: str) -> str:
        leaf = tree.at(name) if tree else None
        if leaf is None or leaf.text is None:
            return ""
        self._notes.say(self._entry(leaf), "used", "used as it stands")
        return leaf.text

    # --- clusters ---------------------------------------------------------------------------------

    def _read_cluster(self, tree: Tree) -> None:
        found: Entries = {}
        config = tree.at("config")
        for name, given in config.fields.items() if config else ():
            found[name] = self._entry(given)
        servers = tree.at("bootstrapServers")
        if servers is not None:
            found["bootstrap.servers"] = self._entry(servers)
        self._read_security(tree, found)
        alias = self._text(tree, "alias")
        self._reading.clusters[alias] = found
        self._workers[alias] = found
        if (leaf := tree.at("alias")) is not None:
            self._reading.named_by = self._entry(leaf)

    def _read_security(self, tree: Tree, found: Entries) -> None:
        tls, login = tree.at("tls"), tree.at("authentication")
        at = (tls or login or tree).number
        kind = self._text(login, "type")
        if tls is not None and tls.text is not None:
            self._notes.say(self._entry(tls), "used", "used: TLS with the system's CAs")
        if tls is not None:
            self._read_ca(tls, found)
        sasl = kind not in {"", "tls"}
        protocol = f"{'SASL_' if sasl else ''}{'SSL' if tls else 'PLAINTEXT'}"
        found["security.protocol"] = Entry(protocol, at, "security.protocol (of tls and type)")
        if login is None:
            return
        if kind == "tls":
            self._read_certificate(login, found)
        elif kind in _SASL:
            self._read_password(login, _SASL[kind], found)
        elif kind == "oauth":
            self._read_oauth(login, found)
        elif kind == "custom":
            config = login.at("config")
            for name, leaf in config.fields.items() if config else ():
                found[name] = self._entry(leaf)
            self._text(login, "sasl")
        else:
            why = f"authentication of the type {kind[:30]} is not built"
            self._notes.say(self._entry(login.fields["type"]), "unsupported", why)

    def _read_ca(self, tls: Tree, found: Entries) -> None:
        trusted = tls.at("trustedCertificates")
        items = trusted.items if trusted else ()
        if len(items) > 1:
            self._refuse_all(items[1:], "here is one CA file: put all certificates into it")
        for item in items[:1]:
            found["ssl.truststore.certificates"] = self._secret(item, "certificate")
            found["ssl.truststore.type"] = Entry(
                "PEM", item.number, "ssl.truststore.type (Strimzi)"
            )

    def _refuse_all(self, items: tuple[Tree, ...], why: str) -> None:
        for item in items:
            for _, leaf in item.leaves():
                self._notes.say(self._entry(leaf), "unsupported", why)

    def _read_certificate(self, login: Tree, found: Entries) -> None:
        pair = login.at("certificateAndKey")
        if pair is not None:
            found["ssl.keystore.certificate.chain"] = self._secret(pair, "certificate")
            found["ssl.keystore.key"] = self._secret(pair, "key")
            found["ssl.keystore.type"] = Entry("PEM", pair.number, "ssl.keystore.type (Strimzi)")

    def _read_password(self, login: Tree, mechanism: str, found: Entries) -> None:
        number = login.number
        secret = login.at("passwordSecret") or Tree(number)
        options = {"username": self._text(login, "username")}
        options["password"] = self._secret(secret, "password").value
        found["sasl.mechanism"] = Entry(mechanism, number, "sasl.mechanism (of the type)")
        line = jaas_line(mechanism.partition("-")[0], options)
        found["sasl.jaas.config"] = Entry(line, number, "sasl.jaas.config (of authentication)")

    def _read_oauth(self, login: Tree, found: Entries) -> None:
        number = login.number
        secret = login.at("clientSecret") or Tree(number)
        options = {"clientId": self._text(login, "clientId")}
        options["clientSecret"] = self._secret(secret, "key").value
        if scope := self._text(login, "scope"):
            options["scope"] = scope
        line = jaas_line("OAUTHBEARER", options)
        found["sasl.mechanism"] = Entry("OAUTHBEARER", number, "sasl.mechanism (of the type)")
        found["sasl.jaas.config"] = Entry(line, number, "sasl.jaas.config (of authentication)")
        if (leaf := login.at("tokenEndpointUri")) is not None:
            found["sasl.oauthbearer.token.endpoint.url"] = self._entry(leaf)

    def _secret(self, tree: Tree, field: str) -> Entry:
        """A key of a Kubernetes Secret: a file where the Secret is mounted for Understudy."""
        name, key = self._text(tree, "secretName"), self._text(tree, field)
        safe = all(part and "/" not in part and ".." not in part and "}" not in part
                   for part in (name, key))  # fmt: skip
        leaf = tree.at(field) or tree.at("secretName")
        entry = self._entry(leaf) if leaf is not None else Entry("", tree.number, field)
        if not safe:
            why = f"it needs secretName and {field}, as plain names"
            self._notes.say(entry, "unsupported", why)
            return Entry("", entry.number, entry.key)
        path = f"{_SECRETS}/{name}"
        self._notes.say(entry, "different", f"the Secret {name} is looked for as files in {path}")
        return Entry(f"${{dir:{path}:{key}}}", entry.number, entry.key)

    # --- mirrors ----------------------------------------------------------------------------------

    def _read_mirror(self, mirror: Tree, common_target: str) -> None:
        source = self._text(mirror, "sourceCluster")
        inner = mirror.at("source")
        if inner is not None:
            self._read_cluster(inner)
            source = self._text(inner, "alias")
        target = self._text(mirror, "targetCluster") or common_target
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
            found[key] = self._entry(leaf)
        if (tasks := tree.at("tasksMax")) is not None:
            found["tasks.max"] = self._entry(tasks)
        found["connector.class"] = Entry(f"{_MIRROR}.{name}", tree.number, f"{field}")
        return found

    def _patterns(self, mirror: Tree, field: str) -> Iterator[tuple[str, Entry]]:
        for pattern, names in _PATTERNS.items():
            leaf = mirror.at(pattern)
            fits = pattern.startswith("topics") or field == "checkpointConnector"
            if leaf is not None and fits:
                for name in names:
                    yield name, self._entry(leaf)
