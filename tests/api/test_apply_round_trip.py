"""An export has every value that can be set: applied again it is empty, elsewhere the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.declarations.kinds import KINDS
from mirrors.domain.settings.failover import HOOK_KEYS
from mirrors.domain.settings.table import KEYS
from mirrors.models import Cluster, Flow, Hook, Runner
from monitoring.models import AlertRule, Channel
from tests.api.test_apply import actions, applied

NAMES = {
    "Cluster": "west",
    "Runner": "fast",
    "Channel": "on-call",
    "Hook": "dns",
    "Flow": "east->west",
    "Objectives": "east->west",
    "Price": "east->west",
    "AlertRule": "East is late",
    "Drill": "east->west",
}
OTHERS = """\
kind: Cluster
name: east
spec: {bootstrap_servers: "east-1:9092, east-2:9092"}
---
kind: Hook
name: switch
spec: {url: "https://dns.example/other"}
---
"""
# What is hard to write in YAML: it must come back as text.
HARD = {"a": "yes", "b": "0123", "c": "null", "d": "2026-01-02", "e": " a: [b] # c", "f": "é\u2028"}
# Each kind with all its fields: a value that is not the default one, and one that is empty or off.
FIELDS: dict[str, dict[str, tuple[Any, Any]]] = {
    "Cluster": {
        "bootstrap_servers": ("west-1:9093,west-2:9093", "west:1"),
        "security_protocol": ("SASL_SSL", "PLAINTEXT"),
        "sasl_mechanism": ("PLAIN", ""),
        "sasl_username": ("yes", ""),
        "sasl_password": ("env:KAFKA_WEST_PASSWORD", ""),
        "ssl_ca": ("file:/run/secrets/ca.pem", ""),
        "ssl_certificate": ("file:/run/secrets/cert.pem", ""),
        "ssl_key": ("file:/run/secrets/key.pem", ""),
        "properties": ({"schema.registry.url": "https://registry:8081"}, {}),
    },
    "Runner": {
        "master": ("local[3]", "local[2]"),
        "host": ("host-1", ""),
        "failover_hosts": ("host-2, host-3", ""),
        "slots": (7, 1),
        "spark_ui": (True, False),
        "event_log": ("file:/var/log/spark", ""),
        "pool": ("east", "west"),
        "auto_balance": (True, False),
    },
    "Channel": {
        "kind": ("webhook", "webhook"),
        "target": ("https://hooks.example/a", "https://hooks.example/b"),
        "secret": ("env:UNDERSTUDY_NOTIFY_HOOK", ""),
        "headers": ({"X-Team": "0123", "X-Note": "null"}, {}),
        "enabled": (False, True),
    },
    "Hook": {
        "url": ("https://dns.example/switch", "https://dns.example/other"),
        "headers": ("X-Team=env:UNDERSTUDY_NOTIFY_TEAM", ""),
        "secret": ("env:UNDERSTUDY_NOTIFY_HOOK", ""),
    },
    "Flow": {
        "runner": ("fast", "fast"),
        "labels": (["team-b", "team-a"], []),
        "properties": ({"topics": "orders.*"}, {}),
        "desired_state": ("paused", "stopped"),
    },
    "Objectives": {
        "rpo_seconds": (0, None),
        "rpo_records": (1_000_000_000_000, 0),
        "rto_seconds": (900, None),
    },
    "Price": {
        # The smallest and the largest that the column holds.
        "per_gb": (0.000001, "999999.999999"),
        "currency": ("EUR", "usd"),
        "monthly_budget": ("100000000000.01", None),
    },
    "AlertRule": {
        "kind": ("time_lag", "time_lag"),
        "flow": ("east->west", None),
        "severity": ("critical", "info"),
        "threshold": (60.5, 0.0),
        "clear_below": (30.25, None),
        "for_seconds": (120, 0),
        "channels": (["on-call"], []),
        "runbook": ("https://wiki.example/late", ""),
        "labels": (HARD, {}),
        "enabled": (False, True),
    },
    "Drill": {
        "schedule": ("0 3 * * 1", "0 4 * * *"),
        "time_zone": ("Europe/Berlin", "UTC"),
        "groups": (["billing", "yes", "007"], []),
        "enabled": (False, True),
    },
}


def document(kind: str, spec: dict[str, Any]) -> str:
    # JSON is YAML.
    return f"kind: {kind}\nname: {json.dumps(NAMES[kind])}\nspec: {json.dumps(spec)}\n---\n"


def documents(at: int) -> str:
    """All kinds with the first or the second value of each field."""
    return OTHERS + "".join(
        document(kind, {name: values[at] for name, values in fields.items()})
        for kind, fields in FIELDS.items()
    )


def exported(client: APIClient) -> str:
    (file,) = client.get("/api/v1/apply/").json()["files"]
    text: str = file["text"]
    return text


def survives(client: APIClient) -> None:
    """The export applied again is empty, and makes the same in an empty installation."""
    text = exported(client)
    assert set(actions(applied(client, text)).values()) == {"none"}
    AlertRule.objects.all().delete()
    Flow.objects.all().delete()
    for model in (Cluster, Runner, Channel, Hook):
        model._default_manager.all().delete()
    applied(client, text)
    assert exported(client) == text


def test_every_field_of_every_kind_has_values_here() -> None:
    assert {kind: set(fields) for kind, fields in FIELDS.items()} == {
        kind.name: set(kind.fields) for kind in KINDS.values()
    }


@pytest.mark.parametrize("at", [0, 1])
def test_every_field_survives_the_way_through_a_file(admin: APIClient, at: int) -> None:
    applied(admin, documents(at))
    survives(admin)


def test_what_was_set_and_is_empty_again_survives(admin: APIClient) -> None:
    applied(admin, documents(0))
    applied(admin, documents(1))
    survives(admin)


def test_labels_of_one_direction_only_survive(admin: APIClient) -> None:
    """A new flow without labels gets those of the other direction, so a file says `[]`."""
    back = 'kind: Flow\nname: "west->east"\nspec: {labels: [], desired_state: stopped}\n'
    applied(admin, documents(0) + back)
    survives(admin)
    labels = {flow.name: flow.labels.count() for flow in Flow.objects.all()}
    assert labels == {"east->west": 2, "west->east": 0}


RULES = [
    {"topics": "audit"},
    {
        "topics": r"orders\..*",
        "where": "get_json_object(cast(value as string), '$.region') = 'eu'",
        "topic": "if(key is null, 'orders.eu', null)",
        "value": "json_drop(value, 'card.number')",
        "headers": "set_header(headers, 'yes', cast('0123' as binary))",
        "routes": ["orders.eu"],
        "provenance": True,
        "on_error": "dead_letter",
    },
]
# A value that is not the default one for each setting; several sets, as some exclude others.
SETTINGS: tuple[dict[str, str], ...] = (
    {
        "topics": "orders.*,  payments",
        "topics.exclude": r".*\.tmp",
        "config.properties.exclude": "retention.*",
        "use.defaults.from": "source",
        "replication.policy.separator": "_",
        "replication.policy.internal.topic.separator.enabled": "false",
        "replication.factor": "2",
        "tasks.max": "4",
        "refresh.topics.enabled": "false",
        "refresh.topics.interval.seconds": "7",
        "heartbeats.replication.enabled": "false",
        "metric.names.formats": "legacy,new",
        "groups": "billing.*",
        "groups.exclude": "tmp-.*",
        "refresh.groups.enabled": "false",
        "refresh.groups.interval.seconds": "31",
        "emit.checkpoints.enabled": "false",
        "emit.checkpoints.interval.seconds": "61",
        "checkpoints.topic.replication.factor": "1",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "62",
        "offset-syncs.topic.location": "target",
        "offset-syncs.topic.replication.factor": "1",
        "offset.lag.max": "50",
        "emit.heartbeats.enabled": "false",
        "emit.heartbeats.interval.seconds": "9",
        "heartbeats.topic.replication.factor": "1",
        "sync.topic.configs.enabled": "false",
        "sync.topic.configs.interval.seconds": "63",
        "sync.topic.acls.enabled": "true",
        "sync.topic.acls.interval.seconds": "601",
        "sync.acls.scope": "complete",
        "drift.grace.seconds": "60",
        "delivery": "at_least_once",
        "commit.interval.ms": "250",
        "start.from": "latest",
        "bandwidth.limit.bytes": "1000000",
        "fetch.overlap.bytes": "1048576",
        "topics.priority.high": "orders.a",
        "topics.priority.low": "orders.z",
        "failover.fence": "none",
        "failover.start.consumers": "webhook",
        "failover.redirect.producers": "command",
        "failover.webhook": "switch",
        "failover.command": "switch",
        "failover.second.person": "true",
        "consumer.fetch.max.wait.ms": "100",
        "producer.linger.ms": "5",
    },
    {
        "topic.rename": r"orders\.(.*) -> sales.$1",
        "transforms": json.dumps(RULES),
        "dead.letter.topic": "dead.0123",
        "run.schedule": "0 3 * * *",
        "run.schedule.zone": "Europe/Berlin",
        "run.window.minutes": "90",
        "compare.schedule": "0 5 * * 1",
        "compare.schedule.zone": "Europe/Berlin",
        "runner.pinned": "true",
    },
    {
        "sync.schemas.enabled": "true",
        "sync.schemas.interval.seconds": "61",
        "sync.schemas.subjects": "orders.*",
        "sync.schemas.subjects.exclude": "orders.tmp",
        "sync.schemas.subject.format": "east.${subject}",
        "sync.schemas.ids": "auto",
        "sync.schemas.missing": "fail",
        "run.until": "end",
    },
    {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "skip.replicated": "true",
        "emit.offset-syncs.enabled": "false",
    },
)


def test_every_setting_of_a_flow_has_a_value_here() -> None:
    here = {name for each in SETTINGS for name in each}
    # Refused: a flow names a hook, which is a document of its own.
    assert set(KEYS) - here == set(HOOK_KEYS)


@pytest.mark.parametrize("at", range(len(SETTINGS)))
def test_every_setting_survives_the_way_through_a_file(admin: APIClient, at: int) -> None:
    flow = document("Flow", {"properties": SETTINGS[at], "desired_state": "stopped"})
    # Schemas are synchronized between two registries.
    east = OTHERS.replace(':9092"}', ":9092\", properties: {schema.registry.url: 'http://east'}}")
    registry = {"schema.registry.url": "http://west"}
    west = document("Cluster", {"bootstrap_servers": "west:9093", "properties": registry})
    applied(admin, east + west + flow)
    assert Flow.objects.get().properties == SETTINGS[at]
    survives(admin)


def test_the_example_of_the_documentation_applies_to_an_empty_installation(
    admin: APIClient,
) -> None:
    page = Path(__file__).parents[2] / "docs" / "operations" / "install" / "declarations.md"
    example = page.read_text().split("```yaml\n")[1].split("```")[0]
    made = applied(admin, example)
    assert set(actions(made).values()) == {"create"}
    rule = next(change for change in made["changes"] if change["kind"] == "AlertRule")
    assert {field["name"]: field["becomes"] for field in rule["fields_changed"]}["flow"] == (
        "east->west"
    )
    assert set(actions(applied(admin, example)).values()) == {"none"}
