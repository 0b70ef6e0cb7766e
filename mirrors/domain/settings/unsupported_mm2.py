"""MM2's settings that a flow does not support, each with its reason.

`table` has the supported ones. A setting is never accepted without an effect.
"""

from __future__ import annotations

from mirrors.domain.settings.value_types import Key

_CONNECT = "org.apache.kafka.connect"
_BYTES = f"{_CONNECT}.converters.ByteArrayConverter"
_ADMIN = "org.apache.kafka.clients.admin.ForwardingAdmin"
_OWN_RECORD = "it identifies the flow, and a flow knows its own clusters"
_NO_WORKERS = "there is no Connect worker: a Spark runner replicates, with its own settings"
_NO_REST = "there is no REST between nodes: Spark distributes the work"
_NO_STORAGE = "positions are stored on the target with the data, in topics with a fixed format"
_NO_CONVERTER = "records are replicated as bytes"
_FIELDS = "it is a field of the cluster"
_RULES = "a flow has rules in `transforms` instead; an import translates those of MM2"


def _only(name: str, mm2: str, meaning: str, why: str, *only: str) -> Key:
    return Key(name=name, verdict="fixed", mm2=mm2, meaning=meaning, why=why, only=only)


def _no(name: str, mm2: str, meaning: str, why: str) -> Key:
    return Key(name=name, verdict="refused", mm2=mm2, meaning=meaning, why=why)


ONE_VALUE = (
    _only("topic.filter.class", f"{_CONNECT}.mirror.DefaultTopicFilter",
          "What decides which topics are replicated.", "no class is loaded",
          f"{_CONNECT}.mirror.DefaultTopicFilter"),
    _only("group.filter.class", f"{_CONNECT}.mirror.DefaultGroupFilter",
          "What decides which groups get checkpoints.", "no class is loaded",
          f"{_CONNECT}.mirror.DefaultGroupFilter"),
    _only("config.property.filter.class", f"{_CONNECT}.mirror.DefaultConfigPropertyFilter",
          "What decides which topic configs are synchronized.", "no class is loaded",
          f"{_CONNECT}.mirror.DefaultConfigPropertyFilter"),
    _only("forwarding.admin.class", _ADMIN, "What changes topics on the target.",
          "no class is loaded", _ADMIN),
    _only("key.converter", _BYTES, "How keys are read.", _NO_CONVERTER, _BYTES),
    _only("value.converter", _BYTES, "How values are read.", _NO_CONVERTER, _BYTES),
    _only("header.converter", _BYTES, "How headers are read.", _NO_CONVERTER, _BYTES),
    _only("errors.tolerance", "none", "Whether bad records are dropped.",
          "a record that cannot be replicated stops its partition until somebody decides", "none"),
    _only("tasks.max.enforce", "true", "Whether `tasks.max` is a limit.", "it always is", "true"),
)  # fmt: skip
NEVER = (
    _no("clusters", "", "The clusters' aliases.", "clusters are created separately"),
    _no("enabled", "false", "Whether the flow replicates.",
        "a flow is started, paused and stopped by its actions"),
    _no("name", "", "The connector's name.", _OWN_RECORD),
    _no("connector.class", "", "The connector's class.", _OWN_RECORD),
    _no("connector.plugin.version", "", "The connector's version.", _OWN_RECORD),
    _no("source.cluster.alias", "", "The source's alias.", _OWN_RECORD),
    _no("target.cluster.alias", "target", "The target's alias.", _OWN_RECORD),
    _no("admin.timeout.ms", "60000", "How long an admin operation may take.",
        "every request to a cluster has its own deadline"),
    _no("consumer.poll.timeout.ms", "1000", "How long one poll waits.",
        "records arrive without polling; write consumer.fetch.max.wait.ms to batch them"),
    _no("metric.reporters", f"{_CONNECT}.metrics.JmxReporter", "Where metrics go.",
        "there is no JMX here"),
    _no("topics.blacklist", "", "Old name of topics.exclude.",
        "MM2 removed the name in 4.0; write topics.exclude"),
    _no("groups.blacklist", "", "Old name of groups.exclude.",
        "MM2 removed the name in 4.0; write groups.exclude"),
    _no("config.properties.blacklist", "", "Old name of config.properties.exclude.",
        "MM2 removed the name in 4.0; write config.properties.exclude"),
    _no("use.incremental.alter.configs", "requested", "How configs were changed.",
        "MM2 removed it in 4.0"),
    _no("add.source.alias.to.metrics", "false", "Whether metrics named the source.",
        "MM2 removed it in 4.0"),
    _no("task.assigned.partitions", "", "What one task replicates.",
        "slices are assigned by the runner"),
    _no("task.assigned.groups", "", "What one task checkpoints.", "MM2 sets it for itself"),
    _no("task.index", "", "Which task this is.", "MM2 sets it for itself"),
    _no("predicates", "", "Which records are changed.", _RULES),
    _no("config.action.reload", "restart", "The action after a secret changed.", _NO_WORKERS),
    _no("errors.retry.timeout", "0", "How long a failed operation is retried.",
        "operations are retried until they succeed or somebody stops the flow"),
    _no("errors.retry.delay.max.ms", "60000", "The longest pause between retries.",
        "the backoff is that of the client; write producer.retry.backoff.max.ms"),
    _no("errors.log.enable", "false", "Whether errors are logged.", "they always are"),
    _no("errors.log.include.messages", "false", "Whether logs contain records.",
        "logs never contain records"),
    _no("offset.flush.interval.ms", "60000", "How often positions are stored.",
        "positions are committed with the data; write commit.interval.ms"),
    _no("offset.flush.timeout.ms", "5000", "How long storing positions may take.", _NO_STORAGE),
    _no("exactly.once.source.support", "disabled", "Whether the worker uses transactions.",
        "write delivery=exactly_once or delivery=at_least_once"),
    _no("exactly.once.support", "requested", "Whether the connector uses transactions.",
        "write delivery=exactly_once or delivery=at_least_once"),
    _no("transaction.boundary", "poll", "How long a transaction lasts.",
        "write commit.interval.ms"),
    _no("transaction.boundary.interval.ms", "", "How long a transaction lasts.",
        "write commit.interval.ms"),
    _no("offsets.storage.topic", "", "Where positions are stored.", _NO_STORAGE),
    _no("internal.topics.automatic.creation.enable", "true", "Who creates internal topics.",
        "internal topics are always created with the settings that they need"),
    _no("dedicated.mode.enable.internal.rest", "false", "REST between MM2's nodes.", _NO_REST),
    _no("listeners", "http://:8083", "Where MM2's REST listens.", _NO_REST),
    _no("response.http.headers.config", "", "Headers of MM2's REST.", _NO_REST),
    _no("config.providers", "", "Where secrets come from.",
        "secrets are references in the cluster's own fields: env:NAME or file:/path"),
    _no("security.protocol", "PLAINTEXT", "How to connect.", _FIELDS),
    _no("bootstrap.servers", "", "Where to connect.", _FIELDS),
    _no("group.id", "<source>-mm2", "The Connect group.", _NO_WORKERS),
    _no("client.id", "<source>-><target>", "The clients' name.", "Understudy names its clients"),
    _no("plugin.path", "", "Where classes are found.", "no class is loaded"),
    _no("scheduled.rebalance.max.delay.ms", "300000", "How long lost tasks wait.", _NO_WORKERS),
)  # fmt: skip
REFUSED: dict[str, Key] = {key.name: key for key in (*ONE_VALUE, *NEVER)}

# Whole families, by how their names begin; a name in the tables above or in `keys` comes first.
FAMILIES: dict[str, str] = {
    "ssl.": _FIELDS,
    "sasl.": _FIELDS,
    "source.cluster.": _FIELDS,
    "target.cluster.": _FIELDS,
    "admin.": "a cluster's properties apply to all its clients; set them there",
    "source.admin.": "a cluster's properties apply to all its clients; set them there",
    "target.admin.": "a cluster's properties apply to all its clients; set them there",
    "target.consumer.": "nothing is consumed from the target; write consumer.…",
    "source.producer.": "nothing is produced to the source; write producer.…",
    "transforms.": _RULES,
    "predicates.": _RULES,
    "topic.creation.": "remote topics get the source's configs; write replication.factor",
    "config.providers.": "secrets are references in the cluster's own fields",
    "key.converter.": _NO_CONVERTER,
    "value.converter.": _NO_CONVERTER,
    "header.converter.": _NO_CONVERTER,
    "offset.storage.": _NO_STORAGE,
    "config.storage.": _NO_STORAGE,
    "status.storage.": _NO_STORAGE,
    "rest.": _NO_REST,
    "access.control.": _NO_REST,
}


def family(name: str) -> str | None:
    """Return why no setting of this family is supported; None if the name has no such prefix."""
    return next((why for prefix, why in FAMILIES.items() if name.startswith(prefix)), None)
