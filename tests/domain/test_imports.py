"""An MM2 file becomes a plan: a verdict for each line, and nothing when one line is wrong."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.migration.imports.line_verdicts import KeyVerdict
from mirrors.domain.migration.imports.plan import LONGEST_TEXT, ImportPlan, plan_import
from tests.domain.cases import flow, golden, laws

MM2_RUNS: dict[str, str] = golden("mm2_runs")["files"]
HEAD = "clusters=A,B\nA.bootstrap.servers=a:1\nB.bootstrap.servers=b:1\nA->B.enabled=true\n"
ENV = (
    "config.providers=env,dir,file\n"
    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
    "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
)
SCRAM = (
    "B.security.protocol=SASL_PLAINTEXT\nB.sasl.mechanism=SCRAM-SHA-512\n"
    "B.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
)


def plan(text: str, head: str = HEAD) -> ImportPlan:
    return plan_import("mm2-properties", head + text)


def line(found: ImportPlan, key: str) -> KeyVerdict:
    return next(line for line in found.lines if line.key == key)


def properties(found: ImportPlan) -> dict[str, str]:
    assert not found.refused
    return found.flows[0].properties


def test_a_whole_file_becomes_clusters_and_flows() -> None:
    found = plan("topics = foo.*, bar\nA->B.tasks.max=4\n")
    assert [spec.alias for spec in found.clusters] == ["A", "B"]
    assert [spec.name for spec in found.flows] == ["A->B"]
    assert properties(found)["topics"] == "foo.*, bar"
    assert (line(found, "topics").number, line(found, "topics").verdict) == (5, "used")


def test_what_mm2_does_by_default_is_written_where_ours_differs() -> None:
    found = properties(plan(""))
    assert found["refresh.topics.interval.seconds"] == "600"
    assert found["consumer.isolation.level"] == "read_uncommitted"
    assert found["replication.factor"] == "2"
    assert found["delivery"] == "at_least_once"
    assert line(plan(""), "refresh.topics.interval.seconds").verdict == "defaulted"


def test_exactly_once_is_a_setting_of_the_target() -> None:
    text = "B.exactly.once.source.support=enabled\nA.consumer.isolation.level=read_committed\n"
    assert properties(plan(text))["delivery"] == "exactly_once"
    assert properties(plan("A.exactly.once.source.support=enabled\n"))["delivery"] != "exactly_once"


def test_a_cluster_s_consumer_setting_beats_the_flow_s_as_in_mm2() -> None:
    found = plan("A.consumer.fetch.min.bytes=5\nA->B.consumer.fetch.min.bytes=6\n")
    assert properties(found)["consumer.fetch.min.bytes"] == "5"
    assert line(found, "A->B.consumer.fetch.min.bytes").verdict == "different"


def test_records_are_written_by_the_target_s_producer() -> None:
    found = plan(
        "B.producer.linger.ms=5\nA->B.producer.linger.ms=6\nA->B.producer.override.batch.size=9\n"
    )
    assert properties(found)["producer.linger.ms"] == "5"
    assert properties(found)["producer.batch.size"] == "9"
    assert line(found, "A->B.producer.linger.ms").verdict == "different"


@pytest.mark.parametrize(
    "key", ["use.defaults.from=source", "consumer.max.poll.records=9", "producer.acks=1"]
)
def test_what_mm2_ignores_at_the_top_is_ignored_and_said(key: str) -> None:
    found = plan(key)
    assert line(found, key.partition("=")[0]).verdict == "different"
    assert not found.refused


@pytest.mark.parametrize("name", ["admin", "consumer.poll", "transaction"])
@pytest.mark.parametrize("owner", ["", "A.", "B.", "A->B."])
def test_timeouts_that_change_no_record_stop_no_import(owner: str, name: str) -> None:
    key = f"{owner}{name}.timeout.ms"
    found = plan(f"{key}=5\n")
    assert (line(found, key).verdict, found.refused) == ("different", ())


def test_old_names_count_unless_the_new_one_is_given() -> None:
    assert properties(plan("topics.blacklist=tmp.*\n"))["topics.exclude"] == "tmp.*"
    found = plan("topics.blacklist=tmp.*\ntopics.exclude=x\n")
    assert properties(found)["topics.exclude"] == "x"
    assert line(found, "topics.blacklist").verdict == "different"


def test_of_a_repeated_key_the_last_line_counts() -> None:
    found = plan("topics=a\ntopics=b\n")
    assert properties(found)["topics"] == "b"
    verdicts = [(row.number, row.verdict) for row in found.lines if row.key == "topics"]
    assert verdicts == [(5, "different"), (6, "used")]


def test_a_login_becomes_typed_fields_and_its_secret_stays_a_reference() -> None:
    spec = plan(SCRAM + ' username=\'m"m\' password="${env:KAFKA_PW}";\n' + ENV).clusters[1]
    assert (spec.sasl_mechanism, spec.sasl_username) == ("SCRAM-SHA-512", 'm"m')
    assert spec.sasl_password == "env:KAFKA_PW"
    spec = plan(SCRAM + " username=mm password=${dir:/run/secrets:pw};\n" + ENV).clusters[1]
    assert spec.sasl_password == "file:/run/secrets/pw"
    spec = plan(SCRAM + " username=mm password=${file:/run/secrets/a:pw};\n" + ENV).clusters[1]
    assert spec.sasl_password == "properties:/run/secrets/a:pw"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ('username="m" password="hunter2";', "clear text"),
        ('username="m" password="${file:relative:root}";', "not a reference that its provider"),
        ('username="m" password="${vault:a:b}";', "config.providers does not name"),
        ('username="m" password="x${env:KAFKA_PW}";', "other text around it"),
        ('username="m" password="${env:KAFKA_PW}"', "not a JAAS line"),
        ('username="m" password="${env:KAFKA_PW}" evil="x";', "options without a field here"),
    ],
)
def test_a_secret_that_is_no_reference_is_refused_and_never_shown(options: str, word: str) -> None:
    found = plan(f"{SCRAM} {options}\n{ENV}")
    refused = line(found, "B.sasl.jaas.config")
    assert refused.verdict == "unsupported"
    assert word in refused.reason
    assert "hunter2" not in repr(found)


def test_a_login_module_is_never_loaded() -> None:
    module = "com.sun.security.auth.module.JndiLoginModule"
    text = SCRAM.replace("org.apache.kafka.common.security.scram.ScramLoginModule", module)
    assert line(plan(f"{text} a=b;\n"), "B.sasl.jaas.config").verdict == "unsupported"


def test_stores_are_read_where_they_are() -> None:
    tls = "B.security.protocol=ssl\nB.ssl.truststore.location=/run/secrets/ca.pem\n"
    spec = plan(tls + "B.ssl.truststore.type=PEM\n").clusters[1]
    assert (spec.security_protocol, spec.ssl_ca) == ("SSL", "file:/run/secrets/ca.pem")
    store = tls.replace("ca.pem", "t.jks") + "B.ssl.truststore.password="
    spec = plan(store + "${env:KAFKA_STORE}\n" + ENV).clusters[1]
    assert spec.ssl_ca == "store:/run/secrets/t.jks:env:KAFKA_STORE"
    assert spec.validate() == {}
    keys = store.replace("truststore", "keystore") + "${env:KAFKA_STORE}\n"
    keys += "B.ssl.key.password=${env:KAFKA_STORE}\nB.ssl.keystore.type=PKCS12\n"
    spec = plan(keys + ENV).clusters[1]
    assert spec.ssl_certificate == spec.ssl_key == "store:/run/secrets/t.jks:env:KAFKA_STORE"
    found = plan(store + "changeit\n")
    refused = line(found, "B.ssl.truststore.password")
    assert "`B.ssl.truststore.password=${env:KAFKA_B_TRUSTSTORE_PASSWORD}`" in refused.reason
    assert "changeit" not in repr(found.lines)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("xxx=1", "xxx"),
        ("A->B.topcs=a", "A->B.topcs"),
        ("replication.factor=x", "replication.factor"),
        ("topics=a,,b", "topics"),
        ("topics=(", "topics"),
        ("A->A.enabled=true", "A->A.enabled"),
        ("A->C.enabled=true", "A->C.enabled"),
        ("B->A.enabled=yes", "B->A.enabled"),
        ("A->B.transforms=x", "A->B.transforms"),
        ("topic.filter.class=com.evil.Filter", "topic.filter.class"),
        ("B.producer.interceptor.classes=com.evil.X", "B.producer.interceptor.classes"),
        ("A.producer.security.protocol=SSL", "A.producer.security.protocol"),
        ("A.security.protocol=NOPE", "A.security.protocol"),
        ("A.bootstrap.servers=a", "A.bootstrap.servers"),
        ("a=\\uZZZZ", "(line)"),
    ],
)
def test_one_wrong_line_stops_the_import_and_says_where(text: str, key: str) -> None:
    found = plan(f"# c\n{text}\n")
    refused = {row.key: row for row in found.refused}
    assert key in refused
    assert refused[key].number == 6
    assert refused[key].reason


def test_loops_are_refused_among_the_new_and_with_what_there_is() -> None:
    loop = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    found = plan(loop + "B->A.enabled=true\n")
    assert "in an endless loop" in line(found, "replication.policy.class").reason
    alone = plan(loop)
    assert not alone.refused
    back = flow("B", "A", replication_policy_class="IdentityReplicationPolicy")
    with_rows = plan_import("mm2-properties", HEAD + loop, existing=[back])
    assert with_rows.refused


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "empty"),
        ("a" * (LONGEST_TEXT + 1), "the limit is"),
        ("a=1\nb=\x00", "line 2"),
        ("a=\ud800", "U+D800"),
        ("clusters=", "clusters"),
        ("clusters=A\nA.bootstrap.servers=a:1", "no flow is enabled"),
    ],
)
def test_a_text_that_is_none_is_refused_as_a_whole(text: str, word: str) -> None:
    found = plan_import("mm2-properties", text)
    assert not found.flows
    assert word.lower() in " ".join(row.reason for row in found.refused).lower()


def test_the_largest_file_is_judged_in_seconds() -> None:
    names = [f"c{number}" for number in range(8)]
    text = f"clusters={','.join(names)}\n"
    text += "".join(f"{name}.bootstrap.servers={name}:1\n" for name in names)
    text += "".join(f"{a}->{b}.enabled=true\n" for a in names for b in names if a != b)
    text += "".join(f"unknown.{number}=x\n" for number in range(2000))
    began = time.monotonic()
    assert plan_import("mm2-properties", text).refused
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("run", sorted(MM2_RUNS), ids=str)
def test_the_files_that_real_runs_had_are_taken(run: str) -> None:
    """With the addresses, which the recordings leave out."""
    text = MM2_RUNS[run] + "source.bootstrap.servers=a:1\ntarget.bootstrap.servers=b:1\n"
    found = plan_import("mm2-properties", text)
    assert not found.refused
    assert [spec.name for spec in found.flows] == ["source->target"]
    expected = "exactly_once" if run == "eos" else "at_least_once"
    assert found.flows[0].properties["delivery"] == expected
    names = {row.key for row in found.lines if row.verdict == "different"}
    assert "offset.storage.replication.factor" in names


@laws
@given(st.text(max_size=200))
def test_no_text_makes_the_import_fall_over(text: str) -> None:
    for head in ("", HEAD):
        found = plan_import("mm2-properties", head + text)
        assert found.digest
        assert all(row.reason and row.verdict for row in found.lines)
