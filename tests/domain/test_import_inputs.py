"""Files as people have them: the smallest input of each kind, and its verdict."""

from __future__ import annotations

import json

import pytest

from mirrors.domain.migration.export import write_mm2
from mirrors.domain.migration.imports.plan import plan_import
from mirrors.domain.settings.table import IDENTITY_POLICY
from tests.domain.import_texts import (
    CHECKPOINT,
    HEAD,
    PLAIN,
    SOURCE,
    connect,
    connector,
    line,
    properties,
)

ENV = (
    "config.providers=env\n"
    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
)
LOGIN = "a.security.protocol=SASL_SSL\na.sasl.mechanism=PLAIN\na.sasl.jaas.config="
RESOURCE = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaMirrorMaker2
metadata: {name: m}
spec:
  connectCluster: b
  clusters:
  - alias: a
    bootstrapServers: a:1
  - alias: b
    bootstrapServers: b:1
    %s
  mirrors:
  - sourceCluster: a
    targetCluster: b
    sourceConnector: {config: {replication.factor: 1}}
"""
MM1_FILES = "--consumer.config\nbootstrap.servers=o:1\n--producer.config\nbootstrap.servers=n:1\n"


def test_a_line_that_every_flow_overrides_says_by_which() -> None:
    plan = properties("topics=.*\na->b.topics=orders\n")
    assert not plan.refused
    assert plan.flows[0].properties["topics"] == "orders"
    found = plan.lines[4]
    assert (found.key, found.verdict) == ("topics", "different")
    assert found.reason == "Overridden for every imported flow, by line 6."


@pytest.mark.parametrize("key", ["source.cluster.alias", "a->b.target.cluster.alias"])
def test_an_alias_beside_the_cluster_s_is_refused_unless_it_is_the_same(key: str) -> None:
    refused = properties(f"{key} = foo\n").refused
    assert [(one.key, one.number) for one in refused] == [(key, 5)]
    assert "names" in refused[0].reason
    same = "a" if "source" in key else "b"
    assert not properties(f"{key} = {same}\n").refused


@pytest.mark.parametrize(
    "text",
    [
        MM1_FILES + '--whitelist "orders.*" --num.streams 2\n',
        'nohup bin/kafka-mirror-maker.sh --consumer.config c.properties --num.streams 2 \\\n'
        "  --producer.config config/p.properties --whitelist='orders.*' > log 2>&1 &\n"
        "# c.properties\nbootstrap.servers=o:1\n"
        "==> config/p.properties <==\nbootstrap.servers=n:1\n",
        "bin/kafka-mirror-maker.sh --num.streams 2 --whitelist orders.*  # the orders\n"
        + MM1_FILES,
    ],
)  # fmt: skip
def test_mirrormaker_1_s_command_is_read_as_a_shell_reads_it(text: str) -> None:
    plan = plan_import("mirrormaker1", text)
    assert not plan.refused, plan.refused
    (flow,) = plan.flows
    assert (flow.properties["topics"], flow.properties["tasks.max"]) == ("orders.*", "2")
    assert (flow.source.bootstrap_servers, flow.target.bootstrap_servers) == ("o:1", "n:1")


@pytest.mark.parametrize(
    ("text", "key", "number", "verdict"),
    [
        ("--whitelist a\n--whitelist b\n", "--whitelist", 6, "unsupported"),
        ("--whitelist a\n--consumer.config\nbootstrap.servers=x:1\n", "--consumer.config", 6,
         "unsupported"),
        ("--whitelist a\n--consumer.config\nbootstrap.servers=x:1\n", "bootstrap.servers", 7,
         "unsupported"),
        ("--whitelist a\n--include b\n", "--whitelist", 5, "different"),
        ("--whitelist a --message.handler com.example.Handler\n", "--message.handler", 5,
         "unsupported"),
        ("--whitelist a extra\n", "extra", 5, "unsupported"),
        ("--whitelist 'a\n", "(line)", 5, "unsupported"),
    ],
)  # fmt: skip
def test_each_line_of_mirrormaker_1_gets_a_verdict(
    text: str, key: str, number: int, verdict: str
) -> None:
    plan = plan_import("mirrormaker1", MM1_FILES + text)
    found = [one.verdict for one in plan.lines if (one.key, one.number) == (key, number)]
    assert found == [verdict]


def test_repeated_keys_of_a_file_of_mirrormaker_1_say_which_counts() -> None:
    text = MM1_FILES.replace("o:1\n", "o:1\nfetch.min.bytes=1\nfetch.min.bytes=2\n")
    plan = plan_import("mirrormaker1", f"{text}--whitelist a\n")
    assert plan.flows[0].properties["consumer.fetch.min.bytes"] == "2"
    assert (plan.lines[2].number, plan.lines[2].verdict) == (3, "different")
    plan = plan_import("mirrormaker1", "kafka-mirror-maker.sh --consumer.config c --whitelist a\n")
    assert "add its lines below a line `# c`" in " ".join(one.reason for one in plan.refused)


@pytest.mark.parametrize(
    "config",
    [
        "config: {key.converter: org.apache.kafka.connect.converters.ByteArrayConverter}",
        "config: {ssl.cipher.suites: TLS_AES_256_GCM_SHA384, ssl.enabled.protocols: TLSv1.3}",
        "tls: {trustedCertificates: [{secretName: ca, pattern: '*.crt'}]}",
        "tls: {trustedCertificates: []}",
    ],
)
def test_what_strimzi_s_examples_have_is_imported(config: str) -> None:
    plan = plan_import("strimzi", RESOURCE % config)
    assert not plan.refused, plan.refused
    if "pattern" in config:
        assert plan.flows[0].target.ssl_ca == "file:/run/secrets/ca/ca.crt"


def test_a_pattern_of_other_certificates_and_external_configuration_say_why() -> None:
    certificates = "tls: {trustedCertificates: [{secretName: ca, pattern: '*.pem'}]}"
    refused = plan_import("strimzi", RESOURCE % certificates).refused
    assert "write certificate: NAME" in refused[0].reason
    more = "  externalConfiguration: {volumes: [{name: v, secret: {secretName: s}}]}\n"
    plan = plan_import("strimzi", RESOURCE % "" + more)
    assert (plan.refused, line(plan, "volumes[0].name").verdict) == ((), "different")


@pytest.mark.parametrize(
    "text", ["xxx=1", "a->b.topcs=a", "a->c.enabled=true", "a.consumer.fetch.size=1", "a->a.x=1"]
)
def test_what_mm2_ignores_stops_an_import_unless_a_person_leaves_it_out(text: str) -> None:
    refused = properties(text).refused
    assert [(one.number, one.ignored) for one in refused] == [(5, True)]
    plan = properties(text, leave_out=True)
    assert not plan.refused
    assert (plan.lines[4].verdict, plan.lines[4].ignored) == ("different", False)
    assert plan.digest != properties("").digest


@pytest.mark.parametrize(
    "text", ["topic.filter.class=com.example.X", "b.producer.compression.gzip.level=9", "topics=("]
)
def test_what_mm2_uses_is_never_left_out(text: str) -> None:
    assert [one.ignored for one in properties(text, leave_out=True).refused] == [False]


@pytest.mark.parametrize("value", ["", '""'])
def test_an_empty_separator_offers_the_policy_that_keeps_names(value: str) -> None:
    text = f"replication.policy.separator = {value}\n"
    assert IDENTITY_POLICY in properties(text).refused[0].reason
    plan = properties(f"{text}replication.policy.class={IDENTITY_POLICY}\n")
    assert (plan.refused, plan.lines[4].verdict) == ((), "different")


def test_a_password_in_clear_text_is_answered_with_the_line_to_write() -> None:
    plan = properties(f'{LOGIN}{PLAIN} username="u" password="hunter2";\n')
    (refused,) = plan.refused
    written = [word for word in refused.reason.split("`") if "=" in word]
    assert "hunter2" not in repr(plan)
    again = properties(LOGIN.removesuffix("a.sasl.jaas.config=") + "\n".join(written) + "\n")
    assert not again.refused, again.refused
    source = again.flows[0].source
    assert (source.sasl_username, source.sasl_password) == ("u", "env:KAFKA_A_PASSWORD")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{LOGIN}${{env:KAFKA_JAAS}}\n", 'username="NAME" password="${env:KAFKA_A_PASSWORD}";`'),
        (
            f'{LOGIN}{PLAIN} username="${{env:KAFKA_U}}" password="${{env:KAFKA_P}}";\n',
            'username="NAME" password="${env:KAFKA_P}";`',
        ),
        ("a.bootstrap.servers=${env:BOOT}\n", "write host:port as plain text"),
        ("a.security.protocol=SSL\na.ssl.truststore.location=/t.jks\n"
         "a.ssl.truststore.password=hunter2\n",
         "`a.ssl.truststore.password=${env:KAFKA_A_TRUSTSTORE_PASSWORD}`"),
    ],
)  # fmt: skip
def test_more_than_a_secret_behind_a_reference_is_one_sentence(text: str, words: str) -> None:
    (refused,) = properties(ENV + text).refused
    assert words in refused.reason
    assert "hunter2" not in refused.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topics = .*   # all of them\n", "comments on lines of their own"),
        ('topics = "orders.*"\n', "Remove the quotation marks"),
        ("groups = app   # ours\n", "comments on lines of their own"),
        ("topics.exclude = 'x.*'\n", "Remove the quotation marks"),
    ],
)
def test_a_pattern_that_matches_nothing_is_warned_of(text: str, words: str) -> None:
    plan = properties(text)
    assert not plan.refused
    assert words in plan.lines[4].reason
    assert plan.lines[4].verdict == "different"
    if text.startswith("topics"):
        assert "matches no topic" in " ".join(plan.warnings)


def test_a_comment_behind_a_number_is_said() -> None:
    assert "lines of their own" in properties("replication.factor=3 # x\n").refused[0].reason


def test_a_repeated_pattern_counts_once() -> None:
    plan = properties("topics=a,a,b\n")
    assert not plan.refused
    assert plan.flows[0].settings.topics == ("a", "b")


def test_answers_of_connect_and_several_texts_in_one_are_imported() -> None:
    one, other = connector(SOURCE, "a", "b"), connector(CHECKPOINT, "a", "b")
    state = {"tasks": [{"connector": "x", "task": 0}], "type": "source"}
    expanded = {"x": {"info": {**one, **state}}, "y": {"info": {**other, **state}}}
    foreign = {"name": "s", "config": {"connector.class": "FileStreamSink", "file": "f"}}
    for text in (
        json.dumps(expanded, indent=1),
        json.dumps(one, indent=1) + "\n" + json.dumps(other),
        json.dumps({**one, **state}) + "\n",
        json.dumps([one, foreign], indent=1),
    ):
        plan = plan_import("connect-json", text)
        assert not plan.refused, plan.refused
        assert [flow.name for flow in plan.flows] == ["a->b"]
    assert line(plan, "file").verdict == "different"
    assert connect(foreign).refused


def test_lists_of_kubectl_and_several_resources_are_imported() -> None:
    resource = RESOURCE % ""
    body = "\n".join(f"  {text}" for text in resource.splitlines())
    listed = f"apiVersion: v1\nkind: List\nitems:\n-{body[1:]}\n"
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: aHVudGVyMg==}\n"
    kafka = (
        "apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector\nmetadata: {name: c}\nspec:\n"
        "  class: org.apache.kafka.connect.mirror.MirrorSourceConnector\n  tasksMax: 3\n  config:\n"
        "    source.cluster.alias: a\n    target.cluster.alias: b\n"
        "    source.cluster.bootstrap.servers: a:1\n    target.cluster.bootstrap.servers: b:1\n"
    )
    for text in (listed, f"---\n{secret}---\n{resource}", f"{secret}---\n{kafka}"):
        plan = plan_import("strimzi", text)
        assert not plan.refused, plan.refused
        assert [flow.name for flow in plan.flows] == ["a->b"]
    assert plan.flows[0].properties["tasks.max"] == "3"
    assert line(plan, "data.password").verdict == "different"


def test_two_mirrors_of_one_pair_are_seen_in_the_preview() -> None:
    again = RESOURCE.partition("  mirrors:\n")[2].replace("1}", "2}")
    refused = plan_import("strimzi", RESOURCE % "" + again).refused
    assert [one.number for one in refused] == [15, 18]
    assert "a->b is in line 18 too" in refused[0].reason


@pytest.mark.parametrize(
    "name",
    ["refresh.topics", "refresh.groups", "sync.topic.configs", "sync.topic.acls",
     "emit.heartbeats", "emit.checkpoints", "sync.group.offsets"],
)  # fmt: skip
def test_a_negative_interval_switches_off_as_in_mm2(name: str) -> None:
    plan = properties(f"{name}.enabled=true\n{name}.interval.seconds=-1\n")
    assert not plan.refused
    assert plan.flows[0].properties[f"{name}.enabled"] == "false"
    assert properties(f"{name}.interval.seconds=0\n").refused


def test_a_byte_order_mark_is_no_letter() -> None:
    assert not plan_import("mm2-properties", "\ufeff" + HEAD).refused
    assert not plan_import("strimzi", "\ufeff" + RESOURCE % "").refused
    text = json.dumps([connector(SOURCE, "a", "b")])
    assert not plan_import("connect-json", "\ufeff" + text).refused


def test_an_alias_keeps_its_letters_in_sentences() -> None:
    two = {"target.cluster.bootstrap.servers": "x:1"}
    plan = connect(connector(SOURCE, "east", "hub"), connector(SOURCE, "west", "hub", **two))
    plans = (plan, connect(connector(CHECKPOINT, "east", "hub")), properties("a->a.x=1\n"))
    for found in plans:
        for one in found.lines:
            assert "East" not in one.reason
            assert "Hub" not in one.reason


def test_the_legacy_mode_keeps_names_and_switches_off_six_tasks() -> None:
    switches = [
        "refresh.topics", "refresh.groups", "emit.checkpoints", "emit.heartbeats",
        "sync.topic.configs", "sync.topic.acls",
    ]  # fmt: skip
    text = "".join(f"{name}.enabled = false\n" for name in switches)
    text += "replication.policy.class=org.apache.kafka.connect.mirror.LegacyReplicationPolicy\n"
    plan = properties(text)
    assert not plan.refused
    found = plan.flows[0].properties
    assert found["replication.policy.class"] == IDENTITY_POLICY
    assert {found[f"{name}.enabled"] for name in switches} == {"false"}


def test_a_production_file_with_stores_and_transaction_timeouts_is_imported() -> None:
    text = (
        "a.security.protocol=SSL\na.ssl.truststore.location=/run/secrets/t.jks\n"
        "a.ssl.truststore.password=${env:KAFKA_STORE}\n"
        "a.ssl.keystore.location=/run/secrets/k.p12\na.ssl.keystore.type=PKCS12\n"
        "a.ssl.keystore.password=${env:KAFKA_STORE}\na.ssl.key.password=${env:KAFKA_STORE}\n"
        "b.producer.transaction.timeout.ms=900000\nb.producer.request.timeout.ms=120000\n"
        "b.producer.acks=1\n"
    )
    plan = properties(ENV + text)
    assert not plan.refused, plan.refused
    source = plan.flows[0].source
    assert source.ssl_ca == "store:/run/secrets/t.jks:env:KAFKA_STORE"
    assert source.ssl_key == source.ssl_certificate == "store:/run/secrets/k.p12:env:KAFKA_STORE"
    found = plan.flows[0].properties
    assert (found["producer.request.timeout.ms"], found["producer.acks"]) == ("60000", "all")
    assert line(plan, "producer.acks").verdict == "different"
    other = text.replace("a.ssl.key.password=${env:KAFKA_STORE}", "a.ssl.key.password=${env:K}")
    assert "keytool -keypasswd" in properties(ENV + other).refused[0].reason


MSK = (
    "a.bootstrap.servers=b-1.demo.x1.c2.kafka.eu-west-1.amazonaws.com:9098\n"
    "a.security.protocol=SASL_SSL\na.sasl.mechanism=AWS_MSK_IAM\n"
    "a.sasl.client.callback.handler.class="
    "software.amazon.msk.auth.iam.IAMClientCallbackHandler\n"
    "a.sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required{};\n"
)


def test_a_login_to_msk_by_iam_is_imported_and_exported() -> None:
    role = "arn:aws:iam::123456789012:role/mirror"
    for options, properties_ in (
        ("", {"aws.msk.region": "eu-west-1"}),
        (f' awsRoleArn="{role}" awsStsRegion="eu-west-1"',
         {"aws.msk.region": "eu-west-1", "aws.msk.role.arn": role}),
    ):  # fmt: skip
        plan = properties(MSK.format(options))
        assert not plan.refused, plan.refused
        source = plan.flows[0].source
        assert (source.sasl_mechanism, source.properties) == ("OAUTHBEARER", properties_)
        again = plan_import("mm2-properties", write_mm2(plan.flows))
        assert again.flows[0].source == source
    handler = "IAMOAuthBearerLoginCallbackHandler"
    text = MSK.format("").replace("=AWS_MSK_IAM", "=OAUTHBEARER").partition("a.sasl.client")[0]
    text += f"a.sasl.login.callback.handler.class=software.amazon.msk.auth.iam.secure.{handler}\n"
    text += f"a.sasl.jaas.config={OAUTH} required;\n"
    assert not properties(text).refused


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MSK.format(' awsProfileName="x"'), "set AWS_PROFILE"),
        (MSK.format("").partition("\n")[2], "use SCRAM"),
        ("a.security.protocol=SASL_SSL\na.sasl.mechanism=GSSAPI\n"
         "a.sasl.kerberos.service.name=kafka\na.sasl.jaas.config="
         'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;\n',
         "SCRAM-SHA-512"),
        ("a.security.protocol=SASL_PLAINTEXT\na.sasl.kerberos.service.name=kafka\n",
         "SCRAM-SHA-512"),
    ],
)  # fmt: skip
def test_a_login_that_does_not_run_is_refused_with_one_that_does(text: str, words: str) -> None:
    (refused,) = properties(text).refused
    assert words in refused.reason


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


def test_extensions_of_oauth_are_imported_and_exported() -> None:
    text = (
        "a.security.protocol=SASL_SSL\na.sasl.mechanism=OAUTHBEARER\n"
        "a.sasl.oauthbearer.token.endpoint.url=https://login.example.com/realms/x/token\n"
        f'a.sasl.jaas.config={OAUTH} required clientId="c" clientSecret="${{env:KAFKA_S}}" '
        'scope="s" extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1";\n'
    )
    plan = properties(ENV + text)
    assert not plan.refused, plan.refused
    source = plan.flows[0].source
    extensions = "logicalCluster=lkc-1,identityPoolId=pool-1"
    assert source.properties["sasl.oauthbearer.extensions"] == extensions
    assert plan_import("mm2-properties", write_mm2(plan.flows)).flows[0].source == source
