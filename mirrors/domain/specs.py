"""ClusterSpec and FlowSpec: validated clusters and flows. `settings.table` has the keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.patterns.renames import RenameRule
from mirrors.domain.schemas.subjects import SubjectSelection
from mirrors.domain.settings.connection import alias_warnings, check_connection
from mirrors.domain.settings.run_bounds import named_offsets, start_milliseconds
from mirrors.domain.settings.table import KEYS
from mirrors.domain.settings.validation import tuning, validate_properties
from mirrors.domain.transforms.rules import TransformRule, dead_letter_topic


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """How to connect to one Kafka cluster. Secrets are references (`env:NAME`, `file:/path`).

    For OAUTHBEARER, `sasl_username` is the client id and `sasl_password` the reference to the
    client secret. `properties` contains `sasl.oauthbearer.token.endpoint.url` and
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
        """Return sentences by field, empty if valid. Whether it connects is not checked."""
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
    """A flow's typed settings: MM2's keys in snake case. Defaults come from `settings.table`."""

    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    config_properties_exclude: tuple[str, ...]
    use_defaults_from: str
    replication_policy_class: str
    replication_policy_separator: str
    replication_policy_internal_topic_separator_enabled: bool
    topic_rename: tuple[RenameRule, ...]
    replication_factor: int | None
    tasks_max: int
    refresh_topics_enabled: bool
    refresh_topics_interval_seconds: int
    heartbeats_replication_enabled: bool
    metric_names_formats: tuple[str, ...]
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
    sync_schemas_enabled: bool
    sync_schemas_interval_seconds: int
    sync_schemas_subjects: tuple[str, ...]
    sync_schemas_subjects_exclude: tuple[str, ...]
    sync_schemas_subject_format: str
    sync_schemas_ids: str
    sync_schemas_missing: str
    delivery: str
    commit_interval_ms: int
    start_from: str
    bandwidth_limit_bytes: int | None
    fetch_overlap_bytes: int
    topics_priority_high: tuple[str, ...]
    topics_priority_low: tuple[str, ...]
    skip_replicated: bool
    transforms: tuple[TransformRule, ...]
    dead_letter_topic: str | None
    run_until: str | None
    run_schedule: str | None
    run_schedule_zone: str | None
    run_window_minutes: int | None
    compare_schedule: str | None
    compare_schedule_zone: str | None
    runner_pinned: bool
    failover_fence: str
    failover_start_consumers: str
    failover_redirect_producers: str
    failover_webhook: str | None
    failover_webhook_url: str | None
    failover_webhook_headers: str | None
    failover_webhook_secret: str | None
    failover_command: str | None
    failover_second_person: bool | None
    consumer: dict[str, str] = dataclasses.field(default_factory=dict)
    producer: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def start_timestamp_ms(self) -> int | None:
        """The time to start from; None for earliest, latest and offsets."""
        return start_milliseconds(self.start_from)

    @property
    def start_offsets(self) -> dict[TopicPartition, int]:
        """The first offsets of the partitions in `start.from`; empty if it has none."""
        return named_offsets(self.start_from) or {}

    @property
    def run_until_ms(self) -> int | None:
        """The time at which a bounded run ends; None if it ends elsewhere or has no end."""
        return None if self.run_until in {None, "end"} else start_milliseconds(str(self.run_until))

    @property
    def run_until_offsets(self) -> dict[TopicPartition, int]:
        """The first offsets that a bounded run does not copy; empty if `run.until` has none."""
        return named_offsets(self.run_until or "") or {}

    @property
    def schema_selection(self) -> SubjectSelection:
        return SubjectSelection(
            names=self.sync_schemas_subjects,
            excluded=self.sync_schemas_subjects_exclude,
            template=self.sync_schemas_subject_format,
        )

    @property
    def isolation_level(self) -> str:
        return self.consumer.get("isolation.level", "read_committed")

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Self:
        """Parse properties. Raises InvalidSettings with a sentence for each invalid key."""
        if errors := validate_properties(properties):
            raise InvalidSettings(errors)
        values: dict[str, Any] = {}
        for key in KEYS.values():
            text = properties.get(key.name, key.default)
            values[key.field] = None if text is None else key.kind.parse(text)
        consumer = tuning(properties, "consumer")
        # MM2 has no `start.from`; this client property decides there where a partition begins.
        reset = consumer.pop("auto.offset.reset", None)
        if reset is not None and "start.from" not in properties:
            values["start_from"] = reset
        return cls(consumer=consumer, producer=tuning(properties, "producer"), **values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlowSpec:
    """One ordered pair of clusters and its settings. Creating one validates its properties."""

    source: ClusterSpec
    target: ClusterSpec
    properties: dict[str, str] = dataclasses.field(default_factory=dict)
    settings: FlowSettings = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", FlowSettings.from_properties(self.properties))

    @property
    def name(self) -> str:
        return f"{self.source.alias}->{self.target.alias}"

    @property
    def dead_letter_topic(self) -> str | None:
        """The topic on the target for records for which a rule fails; None if no rule uses it."""
        settings = self.settings
        return dead_letter_topic(settings.transforms, settings.dead_letter_topic, self.source.alias)

    @classmethod
    def build(
        cls, *, source: ClusterSpec, target: ClusterSpec, properties: Mapping[str, str]
    ) -> Self:
        """Return the spec. Raises InvalidSettings with a sentence for each invalid key."""
        return cls(source=source, target=target, properties=dict(properties))
