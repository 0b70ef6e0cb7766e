"""ClusterSpec and FlowSpec: what a cluster and a flow are, validated; the keys are in `keys`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self

from mirrors.domain import control_rules
from mirrors.domain.connection_rules import alias_warnings, check_connection
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.keys import client_keys, keys_of_failover
from mirrors.domain.keys.refused import REFUSED, family
from mirrors.domain.keys.table import KEYS, Key, nearest
from mirrors.domain.keys.values import start_milliseconds

# Which client a prefix tunes; of several that fit, the longest. MM2 lets a later one win.
PREFIXES: dict[str, Literal["consumer", "producer"]] = {
    "consumer.": "consumer",
    "source.consumer.": "consumer",
    "producer.": "producer",
    "target.producer.": "producer",
    "producer.override.": "producer",
}
LONGEST_VALUE = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """How to reach one Kafka cluster. Secrets are references (`env:NAME`, `file:/path`).

    For OAUTHBEARER, `sasl_username` is the client id, `sasl_password` the reference to the client
    secret, and `properties` carries `sasl.oauthbearer.token.endpoint.url` and
    `sasl.oauthbearer.scope`.
    """

    alias: str
    bootstrap_servers: str
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = ""
    sasl_username: str = ""
    sasl_password: str = ""
    ssl_ca: str = ""
    ssl_certificate: str = ""
    ssl_key: str = ""
    properties: dict[str, str] = dataclasses.field(default_factory=dict)

    def validate(self) -> dict[str, list[str]]:
        """Field -> sentences, empty when all is well. Says nothing of whether it connects."""
        fields = {
            name: getattr(self, name)
            for name in (
                "security_protocol",
                "sasl_mechanism",
                "sasl_username",
                "sasl_password",
                "ssl_ca",
                "ssl_certificate",
                "ssl_key",
            )
        }
        return check_connection(self.alias, self.bootstrap_servers, fields, self.properties)

    def warnings(self) -> list[str]:
        return alias_warnings(self.alias)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowSettings:
    """A flow's settings, typed: MM2's keys in snake case; defaults come from `keys`."""

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    config_properties_exclude: tuple[str, ...]
    use_defaults_from: str
    replication_policy_class: str
    replication_policy_separator: str
    replication_policy_internal_topic_separator_enabled: bool
    replication_factor: int | None
    tasks_max: int
    refresh_topics_enabled: bool
    refresh_topics_interval_seconds: int
    heartbeats_replication_enabled: bool
    groups: tuple[str, ...]
    groups_exclude: tuple[str, ...]
    refresh_groups_enabled: bool
    refresh_groups_interval_seconds: int
    emit_checkpoints_enabled: bool
    emit_checkpoints_interval_seconds: int
    checkpoints_topic_replication_factor: int
    sync_group_offsets_enabled: bool
    sync_group_offsets_interval_seconds: int
    emit_offset_syncs_enabled: bool
    offset_syncs_topic_location: str
    offset_syncs_topic_replication_factor: int
    offset_lag_max: int
    emit_heartbeats_enabled: bool
    emit_heartbeats_interval_seconds: int
    heartbeats_topic_replication_factor: int
    sync_topic_configs_enabled: bool
    sync_topic_configs_interval_seconds: int
    sync_topic_acls_enabled: bool
    sync_topic_acls_interval_seconds: int
    sync_acls_scope: str
    drift_grace_seconds: int
    delivery: str
    commit_interval_ms: int
    start_from: str
    bandwidth_limit_bytes: int | None
    topics_priority_high: tuple[str, ...]
    topics_priority_low: tuple[str, ...]
    skip_replicated: bool
    run_until: str | None
    run_schedule: str | None
    failover_fence: str
    failover_start_consumers: str
    failover_redirect_producers: str
    failover_webhook_url: str | None
    failover_webhook_headers: str | None
    failover_webhook_secret: str | None
    failover_command: str | None
    failover_second_person: bool | None
    consumer: dict[str, str] = dataclasses.field(default_factory=dict)
    producer: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def start_timestamp_ms(self) -> int | None:
        """The moment to start from; None when it is earliest or latest."""
        return start_milliseconds(self.start_from)

    @property
    def run_until_ms(self) -> int | None:
        """The moment at which a bounded run ends; None when it is the ends, or has none."""
        return None if self.run_until in {None, "end"} else start_milliseconds(str(self.run_until))

    @property
    def isolation_level(self) -> str:
        return self.consumer.get("isolation.level", "read_committed")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Raises InvalidSettings with a sentence for each key that is wrong."""
        if errors := validate_properties(properties):
            raise InvalidSettings(errors)
        values: dict[str, Any] = {}
        for key in KEYS.values():
            text = properties.get(key.name, key.default)
            values[key.field] = None if text is None else key.kind.parse(text)
        consumer = tuning(properties, "consumer")
        # MM2 has no `start.from`: there this client property decides where a partition begins.
        reset = consumer.pop("auto.offset.reset", None)
        if reset is not None and "start.from" not in properties:
            values["start_from"] = reset
        return cls(consumer=consumer, producer=tuning(properties, "producer"), **values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowSpec:
    """One ordered pair of clusters and its settings; making one validates its properties."""

    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    settings: FlowSettings = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", FlowSettings.from_properties(self.properties))

    @property
    def name(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @classmethod
    def build(
        cls, *, source: ClusterSpec, target: ClusterSpec, properties: Mapping[str, str]
    ) -> Self:
        """The spec, or InvalidSettings with a sentence for each key that is wrong."""
        return cls(source=source, target=target, properties=dict(properties))


def validate_properties(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Key -> sentences, empty when all is well: unknown and refused keys, impossible values."""
    errors = {
        name: [sentence]
        for name, text in properties.items()
        if (sentence := _refusal(name, text)) is not None
    }
    return errors or _contradictions(properties)


def tuning(properties: Mapping[str, str], role: Literal["consumer", "producer"]) -> dict[str, str]:
    """Valid client properties with their prefix taken off; the more precise prefix wins."""
    found: dict[str, str] = {}
    for prefix in (prefix for prefix, client in PREFIXES.items() if client == role):
        for name, text in properties.items():
            if client_prefix(name) == prefix:
                plain = name.removeprefix(prefix)
                found[plain] = client_keys.normalised(role, plain, text)
    return found


def client_prefix(name: str) -> str | None:
    """The prefix by which a setting tunes a client; None for the flow's own settings."""
    if name in KEYS or name in REFUSED:
        return None
    return max((prefix for prefix in PREFIXES if name.startswith(prefix)), key=len, default=None)


def _refusal(name: str, text: str) -> str | None:
    if not isinstance(text, str):
        return f"{name} must be text, not {type(text).__name__}."
    if len(text) > LONGEST_VALUE or not text.replace("\t", " ").isprintable():
        return f"{name} has more than {LONGEST_VALUE} characters, or some that cannot be shown."
    if (prefix := client_prefix(name)) is not None:
        return client_keys.refusal(PREFIXES[prefix], name.removeprefix(prefix), text, shown=name)
    if name in REFUSED:
        return _refused(REFUSED[name], text)
    if name in KEYS:
        try:
            KEYS[name].kind.parse(text)
        except ValueError as error:
            return f"{name} {error}."
        return None
    return _unknown(name)


def _refused(key: Key, text: str) -> str | None:
    if not key.only:
        return f"{key.name} cannot be set: {key.why}."
    if text.strip() in key.only or text.strip().lower() in key.only:
        return None
    return f"{key.name} can only be {' or '.join(key.only)}: {key.why}."


def _unknown(name: str) -> str:
    if (why := family(name)) is not None:
        return f"{name} cannot be set: {why}."
    meant = nearest(name, [*KEYS, *REFUSED])
    hint = f" Did you mean {meant}?" if meant else ""
    return f"{name[:100]} is not a setting of a flow.{hint}"


def _contradictions(properties: Mapping[str, str]) -> dict[str, list[str]]:
    consumer, producer = tuning(properties, "consumer"), tuning(properties, "producer")
    found = {
        f"{role}.{name}": [f"{role}.{name} {words}."]
        for role, values in (("consumer", consumer), ("producer", producer))
        for name, words in client_keys.contradictions(values).items()
    }
    found |= control_rules.contradictions(properties, consumer)
    found |= keys_of_failover.contradictions(properties)
    start, reset = properties.get("start.from", "").strip(), consumer.get("auto.offset.reset")
    if start and reset and start != reset:
        sentence = f"start.from is {start}, but consumer.auto.offset.reset is {reset}: keep one."
        found["start.from"] = [sentence]
    if properties.get("emit.offset-syncs.enabled", "").strip().lower() == "false":
        # As MM2: who asks for no syncs and says how they are kept means something else.
        for name in properties:
            if name.startswith(("offset-syncs.topic.", "offset-syncs-")):
                found[name] = [f"{name} says nothing while emit.offset-syncs.enabled is false."]
    return found
