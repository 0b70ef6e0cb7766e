"""Keys that no flow has, and which of them an import can leave out: the same records arrive."""

from __future__ import annotations

from typing import Literal

from mirrors.domain.migration.imports.mm2_precedence import Entry
from mirrors.domain.settings import client_properties
from mirrors.domain.settings.table import KEYS, nearest
from mirrors.domain.settings.unsupported_mm2 import REFUSED, family

# Settings of MM2's machinery: without them the same records arrive, so they stop no import.
HARMLESS = frozenset(
    {
        "name", "connector.class", "connector.plugin.version", "source.cluster.alias",
        "target.cluster.alias", "admin.timeout.ms", "consumer.poll.timeout.ms", "metric.reporters",
        "use.incremental.alter.configs", "add.source.alias.to.metrics", "task.assigned.partitions",
        "task.assigned.groups", "task.index", "config.action.reload", "errors.retry.timeout",
        "errors.retry.delay.max.ms", "errors.log.enable", "errors.log.include.messages",
        "offset.flush.interval.ms", "offset.flush.timeout.ms", "exactly.once.support",
        "transaction.boundary", "transaction.boundary.interval.ms", "config.providers",
        "internal.topics.automatic.creation.enable", "dedicated.mode.enable.internal.rest",
        "listeners", "response.http.headers.config", "group.id", "client.id", "plugin.path",
        "scheduled.rebalance.max.delay.ms", "clusters",
    }
)  # fmt: skip
HARMLESS_FAMILIES = (
    "offset.storage.", "config.storage.", "status.storage.", "rest.", "access.control.",
    "key.converter.", "value.converter.", "header.converter.", "config.providers.",
    "admin.", "source.admin.", "target.admin.", "topic.creation.",
)  # fmt: skip
# Client properties of Java that change nothing about which records arrive, nor their order.
_IDLE_CLIENT = frozenset(
    {
        "default.api.timeout.ms", "metrics.num.samples", "metrics.recording.level",
        "metrics.sample.window.ms", "auto.include.jmx.reporter", "enable.metrics.push",
        "partition.assignment.strategy", "group.instance.id", "group.protocol",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms",
        "metadata.max.idle.ms", "metadata.recovery.strategy", "max.poll.records",
        "metadata.recovery.rebootstrap.trigger.ms", "exclude.internal.topics",
    }
)  # fmt: skip
# Names that MirrorMaker 2's clients and workers define; it ignores all others.
_SHARED = """
bootstrap.servers client.dns.lookup client.id config.providers connections.max.idle.ms
enable.metrics.push metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
request.timeout.ms retry.backoff.max.ms retry.backoff.ms security.protocol security.providers
send.buffer.bytes socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms
"""
_PRODUCER = """
acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
compression.zstd.level delivery.timeout.ms enable.idempotence interceptor.classes key.serializer
linger.ms max.block.ms max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
partitioner.ignore.keys retries transaction.timeout.ms transaction.two.phase.commit.enable
transactional.id value.serializer
"""
_CONSUMER = """
allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
default.api.timeout.ms enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms
fetch.min.bytes group.id group.instance.id group.protocol group.remote.assignor
heartbeat.interval.ms interceptor.classes isolation.level key.deserializer
max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
session.timeout.ms value.deserializer
"""
_WORKER = """
admin.listeners connect.protocol connector.client.config.override.policy heartbeat.interval.ms
inter.worker.key.generation.algorithm inter.worker.key.size inter.worker.key.ttl.ms
inter.worker.signature.algorithm inter.worker.verification.algorithms plugin.discovery
rebalance.timeout.ms session.timeout.ms task.shutdown.graceful.timeout.ms topic.creation.enable
topic.tracking.allow.reset topic.tracking.enable worker.sync.timeout.ms worker.unsync.backoff.ms
"""
_CLIENTS = {
    "producer": frozenset(f"{_SHARED} {_PRODUCER}".split()),
    "consumer": frozenset(f"{_SHARED} {_CONSUMER}".split()),
}
# What a worker of Connect reads beyond the settings that `settings.unsupported_mm2` explains.
# Without `task.` and `worker.`, a client's name may be among them: the worker has clients too.
WORKER = frozenset(f"{_SHARED} {_WORKER}".split()) - {"bootstrap.servers", "security.protocol"}
_DANGEROUS = ("loads code", "runs a command", "reads a file", "is a secret", "is a field")


def judge_unknown(
    name: str, entry: Entry
) -> tuple[Literal["used", "different", "ignored", "unsupported"], str]:
    """Return whether an import can leave out a line with this setting's name, and why."""
    known, shown = REFUSED.get(name), entry.key
    if known is not None and known.only:
        if _is_one_of(entry.value, known.only):
            return "used", f"{shown} has the only value that there is here"
        return "unsupported", f"{shown} can only be {' or '.join(known.only)}: {known.why}"
    why = known.why if known is not None else family(name)
    if why is not None:
        harmless = name in HARMLESS or (known is None and name.startswith(HARMLESS_FAMILIES))
        return ("different" if harmless else "unsupported"), f"{shown} is not imported: {why}"
    if is_idle(name):
        why = client_properties.REFUSED.get(name, "changes no record")
        return "different", f"{shown} is not imported: the property {why}"
    if name in WORKER:
        return "different", f"{shown} is not imported: {REFUSED['group.id'].why}"
    meant = nearest(name, [*KEYS, *REFUSED])
    hint = f". Did you mean {meant}?" if meant and meant != name else ""
    return "ignored", f"{shown[:100]} is not a known setting of MirrorMaker 2{hint}"


def _is_one_of(value: str, only: tuple[str, ...]) -> bool:
    """Compare as Connect does: it finds its own classes also by their simple names."""
    word = value.strip()
    return any(word in (one, one.rpartition(".")[2]) or word.lower() == one for one in only)


def is_idle(name: str) -> bool:
    """Return whether a client property changes neither the records nor their order."""
    if name in _IDLE_CLIENT:
        return True
    why = client_properties.REFUSED.get(name, "")
    if why:
        return not why.startswith(_DANGEROUS) and "load code" not in why
    return name.endswith((".serializer", ".deserializer"))


def is_read(role: str, name: str) -> bool:
    """Return whether a Java client of this role defines the property."""
    known = _CLIENTS.get(role, frozenset())
    return name in known or name.startswith(("ssl.", "sasl."))
