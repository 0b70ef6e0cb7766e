"""Kafka client properties that can be set, with their Java names and ranges.

It is an allow-list: a property that loads code, reads a file, runs a command or has no effect is
rejected. `librdkafka` is the property's name in the record lane's client; None if Understudy's own
code uses it. `raw` says why a property has no effect in the raw lane; flows that set it get a
warning.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from mirrors.domain.schemas import registry
from mirrors.domain.settings.references import Reference
from mirrors.domain.settings.table import nearest
from mirrors.domain.settings.value_types import (
    LABEL_TOPICS,
    Boolean,
    Extensions,
    Integer,
    Kind,
    LabelTopics,
    OneOf,
    Text,
    Url,
    Urls,
)

Role = Literal["cluster", "consumer", "producer"]
INT32 = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class ClientKey:
    """One allowed property. `divide` converts Java's unit to librdkafka's."""

    name: str
    kind: Kind
    librdkafka: str | None
    meaning: str
    divide: int = 1
    raw: str = ""


def _table(*keys: ClientKey) -> dict[str, ClientKey]:
    return {key.name: key for key in keys}


_PAUSES = "the backoff is fixed: from 50 ms to 1 s"
COMMON = _table(
    ClientKey("request.timeout.ms", Integer(1000, 60_000), "socket.timeout.ms",
              "how long a broker's response may take"),
    ClientKey("connections.max.idle.ms", Integer(0, INT32), "connections.max.idle.ms",
              "when an idle connection is closed",
              raw="connections are kept, and reopened when a broker closes one"),
    ClientKey("reconnect.backoff.ms", Integer(0, 3_600_000), "reconnect.backoff.ms",
              "the first backoff before reconnecting", raw=_PAUSES),
    ClientKey("reconnect.backoff.max.ms", Integer(0, 3_600_000), "reconnect.backoff.max.ms",
              "the longest backoff before reconnecting", raw=_PAUSES),
    ClientKey("retry.backoff.ms", Integer(1, 300_000), "retry.backoff.ms",
              "the first backoff before a request is retried", raw=_PAUSES),
    ClientKey("retry.backoff.max.ms", Integer(1, 300_000), "retry.backoff.max.ms",
              "the longest backoff before a request is retried", raw=_PAUSES),
    ClientKey("metadata.max.age.ms", Integer(1000, 3_600_000), "topic.metadata.refresh.interval.ms",
              "how often metadata is refreshed without an error",
              raw="metadata is refreshed when a response reports that a leader moved"),
    ClientKey("socket.connection.setup.timeout.ms", Integer(1000, 300_000),
              "socket.connection.setup.timeout.ms", "how long connecting may take"),
    ClientKey("send.buffer.bytes", Integer(0, 100_000_000), "socket.send.buffer.bytes",
              "the socket's send buffer; 0 leaves it to the system"),
    ClientKey("receive.buffer.bytes", Integer(0, 100_000_000), "socket.receive.buffer.bytes",
              "the socket's receive buffer; 0 leaves it to the system"),
    ClientKey("client.dns.lookup",
              OneOf(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
              "client.dns.lookup", "how broker host names are resolved",
              raw="all addresses of a host name are tried"),
)  # fmt: skip
CLUSTER = COMMON | _table(
    ClientKey("ssl.endpoint.identification.algorithm", OneOf(("https", "none")),
              "ssl.endpoint.identification.algorithm",
              "whether a broker's certificate must match its host name; none is for tests"),
    ClientKey("sasl.oauthbearer.token.endpoint.url", Url(), None, "the URL that issues tokens"),
    ClientKey("sasl.oauthbearer.scope", Text(500), None, "the requested scope"),
    ClientKey(registry.URL, Urls(), None, "the schema registry's addresses"),
    ClientKey(registry.USERNAME, Text(255), None, "the user for the schema registry"),
    ClientKey(registry.PASSWORD, Reference(), None, "that user's password"),
    ClientKey(registry.TOKEN, Reference(), None, "a bearer token instead of user and password"),
    ClientKey(registry.CA, Reference(), None, "the CA of the schema registry's certificate; "
              "without it the system's list"),
    ClientKey(registry.CERTIFICATE, Reference(), None, "a client certificate for the schema "
              "registry"),
    ClientKey(registry.KEY, Reference(), None, "the key of that certificate"),
    ClientKey("sasl.oauthbearer.extensions", Extensions(), None,
              "SASL extensions that brokers get with the token, as Java's `extension_NAME`"),
    ClientKey("aws.msk.region", Text(50), None,
              "the region of an MSK cluster whose logins AWS IAM decides; no client id or secret"),
    ClientKey("aws.msk.role.arn", Text(500), None,
              "the role to assume for the login; without it, the identity of the host"),
    ClientKey(LABEL_TOPICS, LabelTopics(), None,
              "which topics of this cluster editors of a flow may choose, by the flow's labels"),
)  # fmt: skip
CONSUMER = COMMON | _table(
    ClientKey("auto.offset.reset", OneOf(("earliest", "latest")), None,
              "MM2's name for `start.from`, which wins if both say the same"),
    ClientKey("check.crcs", Boolean(), "check.crcs", "whether checksums of batches are verified",
              raw="a batch keeps its checksum, and the target broker verifies each one"),
    ClientKey("client.rack", Text(200), "client.rack", "which replicas are read",
              raw="only leaders are read"),
    ClientKey("fetch.max.bytes", Integer(1_000_000, INT32 - 512), "fetch.max.bytes",
              "the most that one fetch returns, within the producer's `buffer.memory`"),
    ClientKey("fetch.max.wait.ms", Integer(0, 300_000), "fetch.wait.max.ms",
              "how long a broker waits for `fetch.min.bytes`"),
    ClientKey("fetch.min.bytes", Integer(1, 100_000_000), "fetch.min.bytes",
              "for how many bytes a broker waits"),
    ClientKey("isolation.level", OneOf(("read_committed", "read_uncommitted")), "isolation.level",
              "whether records of aborted and open transactions are replicated; read_committed "
              "here"),
    ClientKey("max.partition.fetch.bytes", Integer(1, 1_000_000_000), "max.partition.fetch.bytes",
              "the most that one fetch returns of one partition"),
)  # fmt: skip
PRODUCER = COMMON | _table(
    ClientKey("acks", OneOf(("all", "-1")), "acks", "how many replicas must acknowledge a record"),
    ClientKey("batch.size", Integer(1, INT32), "batch.size",
              "the most bytes in one batch; in the raw lane, a batch keeps its size"),
    ClientKey("buffer.memory", Integer(1_048_576, 2**40), "queue.buffering.max.kbytes",
              "how many bytes may wait to be sent", divide=1024),
    ClientKey("compression.type", OneOf(("none", "gzip", "snappy", "lz4", "zstd")),
              "compression.type", "the codec of batches on the target"),
    ClientKey("delivery.timeout.ms", Integer(5_000, 60_000), "delivery.timeout.ms",
              "how long a record may take to be acknowledged"),
    ClientKey("linger.ms", Integer(0, 4_000), "linger.ms",
              "how long a batch waits for more records",
              raw="batches are full already, and small ones are merged while they wait"),
    ClientKey("max.in.flight.requests.per.connection", Integer(1, 5),
              "max.in.flight.requests.per.connection", "how many requests are in flight"),
    ClientKey("max.request.size", Integer(1000, 1_000_000_000), "message.max.bytes",
              "the largest record (record lane); a request of that size gets no more records"),
    ClientKey("retries", Integer(1, INT32), "retries", "how often a request is retried",
              raw="a request is retried until `delivery.timeout.ms` has passed"),
)  # fmt: skip
TABLES: dict[Role, dict[str, ClientKey]] = {
    "cluster": CLUSTER,
    "consumer": CONSUMER,
    "producer": PRODUCER,
}

# Properties that people will look for, and why there is no way to set them.
REFUSED = {
    "bootstrap.servers": "is a field of the cluster",
    "security.protocol": "is a field of the cluster",
    "sasl.mechanism": "is a field of the cluster",
    "sasl.jaas.config": "can load code; write the cluster's own SASL fields instead",
    "sasl.username": "is a field of the cluster",
    "sasl.password": "is a field of the cluster, as a reference to a secret",
    "client.id": "is set by Understudy, so that a broker's log distinguishes its clients",
    "group.id": "has no effect: no consumer group is used for replication",
    "enable.auto.commit": "has no effect: positions are stored on the target",
    "auto.commit.interval.ms": "has no effect: positions are stored on the target",
    "max.poll.records": "has no effect: records are not polled in batches of a fixed number",
    "max.poll.interval.ms": "has no effect: no consumer group is used for replication",
    "session.timeout.ms": "has no effect: no consumer group is used for replication",
    "heartbeat.interval.ms": "has no effect: no consumer group is used for replication",
    "allow.auto.create.topics": "is always false: remote topics are created with their configs",
    "max.block.ms": "has no effect: every wait has its own deadline",
    "enable.idempotence": "is always true",
    "transactional.id": "is set by Understudy, which uses it for fencing",
    "transaction.timeout.ms": "is set by Understudy (60 s and the commit interval)",
    "partitioner.class": "has no effect: a record keeps its partition",
    "plugin.library.paths": "loads code",
    "sasl.kerberos.kinit.cmd": "runs a command",
    "sasl.kerberos.service.name": "has no effect: Kerberos is not supported",
    "interceptor.classes": "loads code",
    "metric.reporters": "loads code",
}
_REFUSED_ENDINGS = {
    ".class": "loads code",
    ".classes": "loads code",
    ".location": "reads a file; write the cluster's own TLS fields instead",
    ".serializer": "has no effect: records are replicated as bytes",
    ".deserializer": "has no effect: records are replicated as bytes",
    ".cmd": "runs a command",
    ".password": "is a secret; write the cluster's own fields, as a reference",
}


# Pairs with librdkafka's own defaults; it refuses to start, or never gets an answer, when the
# first is more than the second.
_ORDERED: tuple[tuple[tuple[str, int], tuple[str, int]], ...] = (
    (("reconnect.backoff.ms", 100), ("reconnect.backoff.max.ms", 10_000)),
    (("fetch.max.wait.ms", 500), ("request.timeout.ms", 60_000)),
)


def refusal(role: Role, name: str, text: str, shown: str = "") -> str | None:
    """Return a sentence if the property cannot have this value. `shown`: its name as written."""
    known, shown = TABLES[role], shown or name
    if name in known:
        try:
            known[name].kind.parse(text)
        except ValueError as error:
            return f"{shown} {error}."
        return None
    if (reason := _reason(name)) is not None:
        return f"{shown} cannot be set: it {reason}."
    meant = nearest(name, known)
    hint = f" Did you mean {shown.removesuffix(name)}{meant}?" if meant else ""
    return f"{shown} is not a supported client property.{hint}"


def _reason(name: str) -> str | None:
    if name in REFUSED:
        return REFUSED[name]
    return next((why for ending, why in _REFUSED_ENDINGS.items() if name.endswith(ending)), None)


def without_effect(properties: Mapping[str, str], role: Role) -> tuple[str, ...]:
    """Return a sentence for each property of a flow that has no effect in the raw lane."""
    return tuple(
        f"{role}.{name} has no effect on batches that are replicated as bytes: {key.raw}."
        for name in properties
        if (key := TABLES[role].get(name)) is not None and key.raw
    )


def normalised(role: Role, name: str, text: str) -> str:
    """Return the value as clients read it: stripped, with true and false in lower case."""
    value = TABLES[role][name].kind.parse(text)
    return str(value).lower() if isinstance(value, bool) else str(value)


def contradictions(properties: Mapping[str, str]) -> dict[str, str]:
    """Return values that are valid alone but not together. Each has passed `refusal`."""
    found = {}
    for (smaller, usual_low), (larger, usual_high) in _ORDERED:
        if smaller in properties or larger in properties:
            low = int(properties.get(smaller, usual_low))
            high = int(properties.get(larger, usual_high))
            if low > high:
                named = smaller if smaller in properties else larger
                found[named] = f"does not fit: {smaller} ({low}) is more than {larger} ({high})"
    return found
