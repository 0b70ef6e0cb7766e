"""Keys that no flow has, and which of them an import can ignore because the same records arrive."""

from __future__ import annotations

from typing import Literal

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
        "scheduled.rebalance.max.delay.ms", "metric.names.formats",
    }
)  # fmt: skip
HARMLESS_FAMILIES = (
    "offset.storage.", "config.storage.", "status.storage.", "rest.", "access.control.",
    "key.converter.", "value.converter.", "header.converter.", "config.providers.",
    "admin.", "source.admin.", "target.admin.",
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
_DANGEROUS = ("loads code", "runs a command", "reads a file", "is a secret", "is a field")


def judge_unknown(name: str, shown: str) -> tuple[Literal["different", "unsupported"], str]:
    """Return whether an import can ignore a key that no flow has, and why."""
    known = REFUSED.get(name)
    why = known.why if known is not None else family(name)
    if why is not None:
        harmless = name in HARMLESS or (known is None and name.startswith(HARMLESS_FAMILIES))
        return ("different" if harmless else "unsupported"), f"{shown} is not imported: {why}"
    if is_idle(name):
        why = client_properties.REFUSED.get(name, "changes no record")
        return "different", f"{shown} is not imported: the property {why}"
    meant = nearest(name, [*KEYS, *REFUSED])
    hint = f". Did you mean {meant}?" if meant else ""
    return "unsupported", f"{shown[:100]} is not a known setting of MirrorMaker 2{hint}"


def is_idle(name: str) -> bool:
    """Return whether a client property changes neither the records nor their order."""
    if name in _IDLE_CLIENT:
        return True
    why = client_properties.REFUSED.get(name, "")
    if why:
        return not why.startswith(_DANGEROUS) and "load code" not in why
    return name.endswith((".serializer", ".deserializer"))
