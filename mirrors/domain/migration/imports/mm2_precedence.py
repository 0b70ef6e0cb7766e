"""Which settings of an MM2 file apply to which flow: MM2's precedence, each value with its line."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

# Names that MM2's connectors define, and so read from the top level of the file.
_NAMES = """
name connector.class connector.plugin.version tasks.max tasks.max.enforce
key.converter key.converter.plugin.version value.converter value.converter.plugin.version
header.converter header.converter.plugin.version transforms predicates config.action.reload
errors.retry.timeout errors.retry.delay.max.ms errors.tolerance errors.log.enable
errors.log.include.messages
enabled source.cluster.alias target.cluster.alias admin.timeout.ms forwarding.admin.class
replication.policy.class replication.policy.separator
replication.policy.internal.topic.separator.enabled metric.reporters metric.names.formats
topics topics.exclude config.properties.exclude topic.filter.class
config.property.filter.class consumer.poll.timeout.ms refresh.topics.enabled
refresh.topics.interval.seconds sync.topic.configs.enabled sync.topic.configs.interval.seconds
sync.topic.acls.enabled sync.topic.acls.interval.seconds replication.factor
offset-syncs.topic.replication.factor offset-syncs.topic.location offset.lag.max
emit.offset-syncs.enabled heartbeats.replication.enabled
groups groups.exclude group.filter.class refresh.groups.enabled
refresh.groups.interval.seconds emit.checkpoints.enabled emit.checkpoints.interval.seconds
sync.group.offsets.enabled sync.group.offsets.interval.seconds
checkpoints.topic.replication.factor
emit.heartbeats.enabled emit.heartbeats.interval.seconds heartbeats.topic.replication.factor
use.incremental.alter.configs add.source.alias.to.metrics
"""
CONNECTOR_NAMES = frozenset(_NAMES.split())
# Old names and their names since 2.7; 4.0 and later ignore the old ones.
OLD_NAMES = {
    "topics.blacklist": "topics.exclude",
    "groups.blacklist": "groups.exclude",
    "config.properties.blacklist": "config.properties.exclude",
}
_WORKER_TOP = (
    "offset.storage", "config.storage", "status.storage", "key.converter", "value.converter",
    "header.converter", "task", "worker", "replication.policy",
)  # fmt: skip
_ROLES = ("producer.", "consumer.", "admin.")
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclasses.dataclass(frozen=True)
class Entry:
    """A value with its line and key; `number` is None for a default.

    The value is never printed: it may be a secret in clear text.
    """

    value: str = dataclasses.field(repr=False)
    number: int | None = None
    key: str = ""


Entries = dict[str, Entry]


def is_security(name: str) -> bool:
    """Return whether MM2 passes this setting of a cluster to each of its clients."""
    return name in {"bootstrap.servers", "security.protocol"} or name.startswith(("ssl.", "sasl."))


def same_value(name: str, first: str, second: str) -> bool:
    """Return whether two values of a connection setting mean the same."""
    if name == "bootstrap.servers":
        return servers(first) == servers(second)
    if name == "security.protocol":
        return first.strip().upper() == second.strip().upper()
    return first.strip() == second.strip()


def servers(text: str) -> frozenset[str]:
    return frozenset(part.strip().lower() for part in text.split(",") if part.strip())


def aliases(file: Mapping[str, Entry]) -> list[str]:
    named = file["clusters"].value.split(",") if "clusters" in file else []
    return list(dict.fromkeys(alias.strip() for alias in named if alias.strip()))


def pairs(file: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    """Yield the flows that get a worker: enabled ones, and all that emit heartbeats."""
    beats = _raw_flag(file.get("emit.heartbeats.enabled"), default=True)
    for source in aliases(file):
        for target in aliases(file):
            flow = f"{source}->{target}"
            if source != target and (
                _raw_flag(file.get(f"{flow}.enabled"), default=False)
                or _raw_flag(file.get(f"{flow}.emit.heartbeats.enabled"), default=beats)
            ):
                yield source, target


def cluster_settings(file: Mapping[str, Entry], alias: str) -> Entries:
    """Return a cluster's settings. Its security applies to its clients unless they override it."""
    found = _below(file, f"{alias}.")
    for name in [name for name in found if is_security(name)]:
        for role in _ROLES:
            found.setdefault(role + name, found[name])
    for name, entry in file.items():
        if is_security(name):
            for prefix in ("", *_ROLES):
                found.setdefault(prefix + name, entry)
    return found


def worker_settings(file: Mapping[str, Entry], source: str, target: str) -> Entries:
    """Return the settings of a flow's Connect worker, including its producer of records."""
    found = cluster_settings(file, target)
    found |= {name: entry for name, entry in file.items() if name.startswith(_WORKER_TOP)}
    found |= _providers(file)
    usual = {
        "client.id": f"{source}->{target}",
        "group.id": f"{source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{source}.internal",
        "status.storage.topic": f"mm2-status.{source}.internal",
        "config.storage.topic": f"mm2-configs.{source}.internal",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "header.converter": _BYTES,
    }
    return {name: Entry(text) for name, text in usual.items()} | found


def connector_settings(
    file: Mapping[str, Entry],
    source: str,
    target: str,
    connector_class: str = "org.apache.kafka.connect.mirror.MirrorSourceConnector",
) -> Entries:
    """Return the settings of a flow's connectors; its own `S->T.` settings have precedence."""
    found = {
        name: entry
        for name, entry in file.items()
        if name in CONNECTOR_NAMES or (is_security(name) and name != "bootstrap.servers")
    }
    found |= _providers(file)
    found |= {name: entry for name, entry in file.items() if name.startswith("replication.policy")}
    for side, alias in (("source", source), ("target", target)):
        for name, entry in cluster_settings(file, alias).items():
            if name.startswith(("producer", "consumer", "admin")):
                found[f"{side}.{name}"] = entry
            else:
                found[f"{side}.cluster.{name}"] = entry
    found.setdefault("name", Entry(connector_class.rpartition(".")[2]))
    found.setdefault("connector.class", Entry(connector_class))
    found.setdefault("source.cluster.alias", Entry(source))
    found.setdefault("target.cluster.alias", Entry(target))
    found |= _below(file, f"{source}->{target}.")
    found.setdefault("enabled", Entry("false"))
    return found


def is_true(entry: Entry | None, *, default: bool = False) -> bool:
    """Return a flag as a connector reads it; other values are rejected elsewhere."""
    return default if entry is None else entry.value.strip().lower() == "true"


def by_name(lines: Iterable[tuple[int, str, str]]) -> Entries:
    """Return the lines as a table; the last one of a key counts, as in Java."""
    return {key: Entry(value, number, key) for number, key, value in lines}


def _raw_flag(entry: Entry | None, *, default: bool) -> bool:
    """Return a flag as MM2 reads it before a connector exists: surrounding blanks make it false."""
    return default if entry is None else entry.value.lower() == "true"


def _below(entries: Mapping[str, Entry], prefix: str) -> Entries:
    return {
        name.removeprefix(prefix): entry
        for name, entry in entries.items()
        if name.startswith(prefix)
    }


def _providers(file: Mapping[str, Entry]) -> Entries:
    return {name: entry for name, entry in file.items() if name.startswith("config.providers")}
