"""Texts that people have: each is imported, or its sentence names the cause and what to write."""

from __future__ import annotations

import json

import pytest

from mirrors.domain.migration.imports.plan import ImportPlan, plan_import
from mirrors.domain.settings.table import IDENTITY_POLICY
from tests.domain.test_import_inputs import (
    CHECKPOINT,
    ENV,
    HEAD,
    LOGIN,
    MM1_FILES,
    PLAIN,
    SOURCE,
    connect,
    connector,
    line,
    properties,
)

PAIR = "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\n"
EMPTY = "replication.policy.separator=\nsource.cluster.alias=\ntarget.cluster.alias=\n"


def read(text: str, **more: bool) -> ImportPlan:
    return plan_import("mm2-properties", text, **more)  # type: ignore[arg-type]


# --- imported as MirrorMaker 2 reads it -----------------------------------------------------------


def test_an_empty_alias_with_an_empty_separator_keeps_names() -> None:
    plan = properties(EMPTY)
    assert not plan.refused
    (flow,) = plan.flows
    assert flow.properties["replication.policy.class"] == IDENTITY_POLICY
    assert [found.verdict for found in plan.lines if found.number in {5, 6, 7}] == ["different"] * 3
    assert "a.checkpoints.internal" in line(plan, "source.cluster.alias").reason


@pytest.mark.parametrize("text", ["source.cluster.alias=\n", "replication.policy.separator=\n"])
def test_only_one_of_both_empty_is_refused(text: str) -> None:
    assert [found.number for found in properties(text).refused] == [5]


def test_empty_names_of_connectors_keep_names_too() -> None:
    names = {"source.cluster.alias": "", "replication.policy.separator": ""}
    plan = connect(connector(SOURCE, "a", "b", **names))
    assert not plan.refused
    assert plan.flows[0].name == "source->b"
    assert plan.flows[0].properties["replication.policy.class"] == IDENTITY_POLICY


def test_a_protocol_before_an_address_is_left_out_as_java_s_clients_do() -> None:
    plan = properties("a.bootstrap.servers=SASL_SSL://a:1, PLAINTEXT://[::1]:2\n")
    assert plan.flows[0].source.bootstrap_servers == "a:1,[::1]:2"
    found = next(one for one in plan.lines if one.number == 5)
    assert (found.verdict, "security.protocol" in found.reason) == ("different", True)


def test_json_that_repeats_a_key_counts_the_last_one_and_says_so() -> None:
    text = json.dumps(connector(SOURCE, "a", "b"), indent=1)
    plan = plan_import("connect-json", text.replace('"config": {', '"config": {\n"topics": "x",\n'
                                                    '"topics": "y",'))  # fmt: skip
    assert not plan.refused
    assert plan.flows[0].properties["topics"] == "y"
    assert "line 5" in next(found for found in plan.lines if found.number == 4).reason.lower()


def test_blanks_in_a_login_are_no_contradiction() -> None:
    login = {
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": f'{PLAIN} username="u" password="${{env:P}}";',
    }
    other = login | {
        "source.cluster.sasl.jaas.config": f' {PLAIN}  username="u"  password="${{env:P}}" ; '
    }
    assert not connect(
        connector(SOURCE, "a", "b", **login), connector(CHECKPOINT, "a", "b", **other)
    ).refused
    other["source.cluster.sasl.jaas.config"] = f'{PLAIN} username="v" password="${{env:P}}";'
    assert connect(
        connector(SOURCE, "a", "b", **login), connector(CHECKPOINT, "a", "b", **other)
    ).refused


def test_a_source_has_the_login_of_the_consumer_that_reads_from_it() -> None:
    login = (
        "{0}security.protocol=SASL_SSL\n{0}sasl.mechanism=PLAIN\n"
        f'{{0}}sasl.jaas.config={PLAIN} username="u" password="${{{{env:KAFKA_P}}}}";\n'
    )
    text = ENV + login.format("a->b.consumer.") + login.format("a->b.source.admin.")
    plan = properties(text)
    assert not plan.refused, plan.refused
    source = plan.flows[0].source
    assert (source.security_protocol, source.sasl_password) == ("SASL_SSL", "env:KAFKA_P")
    assert plan.flows[0].target.security_protocol == "PLAINTEXT"
    both = properties(f"{text}b->a.enabled=true\na->b.topics=x\nb->a.topics=y\n")
    assert any("which has no sasl.mechanism" in found.reason for found in both.refused)


# --- refused, with the cause ----------------------------------------------------------------------


def test_settings_of_all_flows_are_no_unknown_ones_without_a_flow() -> None:
    plan = read(f"{PAIR}topics=x\ntasks.max=2\nreplication.factor=3\nunknown.key=1\n")
    assert [found.key for found in plan.refused] == ["unknown.key", "S->T.enabled"]
    assert "no flow is enabled" in line(plan, "topics").reason
    without = read("cluster=a,b\na.bootstrap.servers=a:1\ntopics=x\n")
    assert [found.key for found in without.refused] == ["clusters"]


def test_a_client_s_property_without_its_client_gets_the_name_that_mm2_reads() -> None:
    first, second = properties("a.fetch.max.bytes=1000\nb.buffer.memory=1000\n").refused
    assert "Did you mean a.consumer.fetch.max.bytes?" in first.reason
    assert "Did you mean b.producer.buffer.memory?" in second.reason
    assert first.ignored


def test_a_comment_behind_a_switch_is_named() -> None:
    text = HEAD.replace("clusters=a,b", "clusters=a,b,c") + "c.bootstrap.servers=c:1\n"
    plan = read(f"{text}b->c.enabled = false # passive\n")
    found = line(plan, "b->c.enabled")
    assert (plan.refused, found.verdict) == ((), "different")
    assert "'false # passive'" in found.reason
    assert [flow.name for flow in plan.flows] == ["a->b"]
    (refused,) = read(f"{text}b->c.enabled = true # active\n").refused
    assert refused.number == 6
    assert "lines of their own" in refused.reason


def test_a_blank_that_switches_a_flow_off_is_named() -> None:
    plan = read(f"{PAIR}a->b.enabled = true \nemit.heartbeats.enabled=true \n")
    assert "a blank behind true" in line(plan, "a->b.enabled").reason
    assert not read(f"{PAIR}a->b.enabled = true \n").refused


def test_two_secrets_of_one_cluster_get_two_variables() -> None:
    store = "a.ssl.{0}store.location=/{0}.jks\na.ssl.{0}store.password=hunter2\n"
    text = "a.security.protocol=SSL\n" + store.format("trust") + store.format("key")
    first, second = properties(ENV + text).refused
    assert "`a.ssl.truststore.password=${env:KAFKA_A_TRUSTSTORE_PASSWORD}`" in first.reason
    assert "`a.ssl.keystore.password=${env:KAFKA_A_KEYSTORE_PASSWORD}`" in second.reason


@pytest.mark.parametrize(
    "secret",
    [
        f'a.sasl.jaas.config={PLAIN} username="u" password="${{AUTH_CODE}}";\n',
        f'a.sasl.jaas.config={PLAIN} username="${{USER}}" password="${{AUTH_CODE}}";\n',
    ],
)
def test_a_variable_that_a_script_fills_in_is_answered_with_the_line_to_write(secret: str) -> None:
    head = LOGIN.removesuffix("a.sasl.jaas.config=")
    (refused,) = properties(head + secret).refused
    written = [word for word in refused.reason.split("`") if "=" in word]
    again = properties(head + "\n".join(written) + "\n")
    assert not again.refused, again.refused
    assert again.flows[0].source.sasl_password == "env:KAFKA_A_PASSWORD"


def test_a_variable_in_another_setting_is_named() -> None:
    (refused,) = properties("replication.factor=${RF}\n").refused
    assert "the variable RF" in refused.reason
    (refused,) = properties("b.bootstrap.servers=${HOST}:9092\n").refused
    assert "write host:port" in refused.reason


@pytest.mark.parametrize("kind", ["mm2-properties", "strimzi", "connect-json"])
def test_a_template_is_refused_with_one_sentence(kind: str) -> None:
    text = "# {{ a comment }}\nclusters = {{ source }},b\nb: {{ .Values.topics | quote }}\n"
    plan = plan_import(kind, text)  # type: ignore[arg-type]
    (refused,) = plan.refused
    assert refused.reason.startswith("Line 2 has a placeholder")
    assert "helm template" in refused.reason


def test_connectors_that_copy_nothing_get_one_sentence() -> None:
    plan = connect(connector(CHECKPOINT, "a", "b"))
    (refused,) = plan.refused
    assert refused.key == "connector.class"
    assert "add its configuration to this text" in refused.reason
    other = connector("X", "a", "b")
    assert [found.number for found in connect(other).refused] == [None]


def test_checkpoints_with_a_policy_that_the_source_lacks_are_one_clear_sentence() -> None:
    policy = {"replication.policy.class": IDENTITY_POLICY}
    (refused,) = connect(
        connector(SOURCE, "a", "b"), connector(CHECKPOINT, "a", "b", **policy)
    ).refused
    assert refused.reason.startswith("The source connector has no replication.policy.class, so")


def test_a_policy_of_one_s_own_is_answered_with_what_to_write() -> None:
    (refused,) = properties("replication.policy.class=com.example.Plain\n").refused
    assert IDENTITY_POLICY in refused.reason
    assert "topic.rename" in refused.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": "x"\n"b": "y"}', "a comma is missing"),
        ('{"a": "say "x""}', "a quotation mark inside a value"),
        ('{"a": "x",\n}', "one too many"),
        ('{\n// c\n"a": "x"}', "comments"),
    ],
)
def test_json_that_is_none_gets_the_likely_cause(text: str, words: str) -> None:
    (refused,) = (found for found in plan_import("connect-json", text).refused
                  if found.key == "text")  # fmt: skip
    assert words in refused.reason, refused.reason


def test_a_tab_in_yaml_is_named() -> None:
    (refused,) = plan_import("strimzi", "kind: KafkaMirrorMaker2\nspec:\n\tclusters: []\n").refused
    assert "indented with a tab" in refused.reason
    (refused,) = plan_import("strimzi", "kind: a\nkind: b\n").refused
    assert refused.reason == "Line 2 has the field kind of line 1 again."


SHORTENED = """\
kind: KafkaMirrorMaker2
spec:
  target: {alias: b, bootstrapServers: "b:1"}
  mirrors:
  - source:
      %s
    sourceConnector: {tasksMax: 5, listOffsets: {toConfigMap: {name: o}}}
    groupsPattern: ".*"
"""


def test_a_resource_that_a_manual_shortened_says_what_is_missing() -> None:
    (refused,) = plan_import("strimzi", SHORTENED % "# ...").refused
    assert (refused.number, refused.key) == (5, "spec.mirrors[0].source")
    assert refused.reason == "The cluster has no alias and no bootstrapServers: enter them."
    plan = plan_import("strimzi", SHORTENED % 'alias: a\n      bootstrapServers: "a:1"')
    assert not plan.refused
    assert "Only a checkpointConnector reads it" in line(plan, "groupsPattern").reason
    assert line(plan, "toConfigMap.name").verdict == "different"


TEXTS = {
    "mm2-properties": HEAD,
    "strimzi": SHORTENED % 'alias: a\n      bootstrapServers: "a:1"',
    "connect-json": json.dumps(connector(SOURCE, "a", "b"), indent=1),
    "mirrormaker1": f"kafka-mirror-maker.sh --whitelist x\n{MM1_FILES}",
}


@pytest.mark.parametrize("chosen", TEXTS)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_text_of_another_kind_names_its_kind(kind: str, chosen: str) -> None:
    plan = plan_import(chosen, TEXTS[kind])  # type: ignore[arg-type]
    assert bool(plan.refused) is (kind != chosen)
    if plan.refused:
        (refused,) = plan.refused
        assert refused.reason.endswith(f": import it with the kind {kind}.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: ConfigMap\ndata:\n  mm2.properties: |\n    clusters = a, b\n", "in its `data`"),
        ("kind: KafkaMirrorMaker\nspec:\n  include: x\n", "the kind mirrormaker1"),
        ("kind: Connector\nspec:\n  configs: {}\n", "`configs` as JSON"),
        ("services:\n  mm2: {image: kafka}\n", "Docker Compose"),
    ],
)
@pytest.mark.parametrize("chosen", TEXTS)
def test_a_text_of_no_kind_says_what_to_import_instead(chosen: str, text: str, words: str) -> None:
    (refused,) = plan_import(chosen, text).refused  # type: ignore[arg-type]
    assert words in refused.reason


def test_a_placeholder_is_no_address_without_a_port() -> None:
    (refused,) = properties("b.bootstrap.servers=<your brokers>\n").refused
    assert "is a placeholder" in refused.reason


def test_an_old_consumer_of_mirrormaker_1_needs_the_address_of_brokers() -> None:
    text = MM1_FILES.replace("bootstrap.servers=o:1", "zookeeper.connect=z:2181/x")
    plan = plan_import("mirrormaker1", f"kafka-mirror-maker.sh --whitelist x\n{text}")
    refused = next(found for found in plan.refused if found.key == "zookeeper.connect")
    assert "write bootstrap.servers=HOST:9092" in refused.reason
    assert not refused.ignored


def test_a_part_of_a_secret_is_never_shown() -> None:
    head = LOGIN.removesuffix("a.sasl.jaas.config=")
    text = f'{head}a.sasl.jaas.config={PLAIN} username="u" password="x${{hunter2}}";\n'
    assert "hunter2" not in repr(properties(text).lines)
