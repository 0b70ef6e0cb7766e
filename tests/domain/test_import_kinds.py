"""Strimzi resources, Kafka Connect's JSON and MirrorMaker 1's command give the same flows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.migration.imports.plan import KINDS, ImportPlan, plan_import
from mirrors.domain.settings.table import IDENTITY_POLICY
from tests.domain.cases import laws

BETA = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata:
  name: my-mm2
spec:
  replicas: 1
  connectCluster: "backup"
  clusters:
  - alias: "primary"
    bootstrapServers: primary:9092
  - alias: "backup"
    bootstrapServers: backup:9093
    tls:
      trustedCertificates:
      - secretName: backup-ca
        certificate: ca.crt
    authentication:
      type: scram-sha-512
      username: mm
      passwordSecret:
        secretName: mm-secret
        password: pw
    config:
      config.storage.replication.factor: -1
      producer.linger.ms: 7
  mirrors:
  - sourceCluster: "primary"
    targetCluster: "backup"
    sourceConnector:
      tasksMax: 4
      autoRestart:
        enabled: true
      config:
        replication.factor: -1
        sync.topic.acls.enabled: "false"
    checkpointConnector:
      tasksMax: 2
      config:
        sync.group.offsets.enabled: true
    topicsPattern: "orders.*|pay"
    groupsPattern: "app-.*"
"""
ONE = """\
apiVersion: kafka.strimzi.io/v1
kind: KafkaMirrorMaker2
metadata: {name: my-mm2}
spec:
  target:
    alias: backup
    bootstrapServers: backup:9092
    groupId: my-mm2
    offsetStorageTopic: my-mm2-offsets
    configStorageTopic: my-mm2-configs
    statusStorageTopic: my-mm2-status
  mirrors:
  - source:
      alias: primary
      bootstrapServers: primary:9093
      tls: {trustedCertificates: [{secretName: ca, certificate: ca.crt}]}
      authentication:
        type: tls
        certificateAndKey: {secretName: user, certificate: user.crt, key: user.key}
    sourceConnector: {tasksMax: 3, config: {replication.factor: 1}}
    topicsPattern: "a.*"
"""
COMMON = {
    "source.cluster.alias": "primary",
    "target.cluster.alias": "backup",
    "source.cluster.bootstrap.servers": "primary:9092",
    "target.cluster.bootstrap.servers": "backup:9092",
}
MM1 = """\
bin/kafka-mirror-maker.sh
--consumer.config
bootstrap.servers=old:9092
group.id=mirror
fetch.min.bytes=5
--producer.config
# the other side
bootstrap.servers=new:9092
compression.type=lz4
acks=all
--whitelist "orders.*|pay"
--num.streams 3
"""


def connectors(**more: dict[str, str]) -> str:
    found = [
        {"name": kind, "config": {"connector.class": f"x.{kind}", **COMMON, **config}}
        for kind, config in more.items()
    ]
    return json.dumps(found, indent=2)


def verdicts(plan: ImportPlan) -> dict[str, str]:
    return {line.key: line.verdict for line in plan.lines if line.number is not None}


def test_a_strimzi_resource_becomes_a_flow() -> None:
    plan = plan_import("strimzi", BETA)
    assert not plan.refused, plan.refused
    (flow,) = plan.flows
    assert flow.name == "primary->backup"
    assert flow.properties["topics"] == "orders.*|pay"
    assert flow.properties["tasks.max"] == "4"
    assert flow.properties["replication.factor"] == "-1"
    assert flow.properties["producer.linger.ms"] == "7"
    backup = flow.target
    assert (backup.security_protocol, backup.sasl_mechanism) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (backup.sasl_username, backup.sasl_password) == ("mm", "file:/run/secrets/mm-secret/pw")
    assert backup.ssl_ca == "file:/run/secrets/backup-ca/ca.crt"
    said = verdicts(plan)
    assert said["spec.replicas"] == "different"
    assert said["spec.mirrors[0].sourceConnector.tasksMax"] == "used"
    assert said["spec.mirrors[0].checkpointConnector.tasksMax"] == "different"
    numbers = {line.key: line.number for line in plan.lines}
    assert numbers["spec.mirrors[0].topicsPattern"] == 40


def test_every_leaf_of_a_strimzi_resource_gets_a_verdict() -> None:
    plan = plan_import("strimzi", BETA + "    unknownField: 1\n")
    assert verdicts(plan)["spec.mirrors[0].unknownField"] == "unsupported"
    keys = {line.key for line in plan_import("strimzi", BETA).lines}
    leaves = [line for line in BETA.splitlines() if line.strip().count(": ") and "{" not in line]
    assert len([key for key in keys if key.startswith(("spec", "kind", "api", "meta"))]) >= len(
        leaves
    )


def test_version_one_of_the_resource_names_the_target_once() -> None:
    plan = plan_import("strimzi", ONE)
    assert not plan.refused, plan.refused
    (flow,) = plan.flows
    assert flow.source.ssl_certificate == "file:/run/secrets/user/user.crt"
    assert flow.source.ssl_key == "file:/run/secrets/user/user.key"
    assert flow.properties["tasks.max"] == "3"
    line = next(line for line in plan.lines if line.key == "spec.target.offsetStorageTopic")
    assert (line.verdict, "a takeover reads" in line.reason) == ("different", True)


def test_connectors_of_kafka_connect_become_a_flow() -> None:
    text = connectors(
        MirrorSourceConnector={"topics": "a", "producer.override.linger.ms": "5"},
        MirrorCheckpointConnector={"groups": "g"},
        MirrorHeartbeatConnector={"offset.lag.max": "5"},
    )
    plan = plan_import("connect-json", text)
    (flow,) = plan.flows
    assert flow.properties["topics"] == "a"
    assert flow.properties["producer.linger.ms"] == "5"
    assert flow.source.bootstrap_servers == "primary:9092"
    alone = plan_import(
        "connect-json", json.dumps({"connector.class": "MirrorSourceConnector", **COMMON})
    )
    assert [flow.name for flow in alone.flows] == ["primary->backup"]


@pytest.mark.parametrize(
    "text",
    [
        connectors(MirrorCheckpointConnector={}),
        connectors(FileStreamSink={}),
        connectors(MirrorSourceConnector={"transforms": "x"}),
        connectors(MirrorSourceConnector={"unknown.key": "x"}),
        '{"config": {"connector.class": {"a": 1}}}',
        "{",
        "[]",
        "5",
        "[" * 1000,
    ],
)
def test_connectors_that_make_no_flow_are_refused(text: str) -> None:
    assert plan_import("connect-json", text).refused


def test_mirrormaker_1_keeps_names_and_begins_at_the_end() -> None:
    plan = plan_import("mirrormaker1", MM1)
    assert not plan.refused, plan.refused
    (flow,) = plan.flows
    assert (flow.source.bootstrap_servers, flow.target.bootstrap_servers) == (
        "old:9092",
        "new:9092",
    )
    assert flow.properties["topics"] == "orders.*|pay"
    assert flow.properties["replication.policy.class"] == IDENTITY_POLICY
    assert flow.properties["tasks.max"] == "3"
    assert flow.properties["consumer.fetch.min.bytes"] == "5"
    assert flow.properties["producer.compression.type"] == "lz4"
    assert flow.settings.start_from == "latest"
    assert verdicts(plan)["group.id"] == "different"
    assert {line.key: line.number for line in plan.lines}["compression.type"] == 9


def test_a_resource_that_grows_without_end_is_refused() -> None:
    bomb = "kind: KafkaMirrorMaker2\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
    plan = plan_import("strimzi", bomb)
    assert "Line 2 uses an anchor" in plan.refused[0].reason
    assert "levels" in plan_import("strimzi", "a: " + "[" * 200).refused[0].reason
    assert plan_import("strimzi", "kind: Kafka\n").refused
    assert "Line 2" in plan_import("strimzi", "a: 1\n\tb: 2\n").refused[0].reason


@laws
@given(st.sampled_from(KINDS), st.text(max_size=100), st.sampled_from([BETA, ONE, MM1, ""]))
def test_no_text_makes_an_import_of_any_kind_fall_over(kind: str, text: str, head: str) -> None:
    plan = plan_import(kind, head + text)  # type: ignore[arg-type]
    assert plan.digest
    assert plan.refused or plan.flows
