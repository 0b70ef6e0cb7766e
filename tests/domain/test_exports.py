"""An exported file, imported again, gives the same flows; MirrorMaker 2's own classes accept it."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.migration.export import write_mm2
from mirrors.domain.migration.imports.plan import changed_settings, plan_import
from mirrors.domain.settings.table import IDENTITY_POLICY, POLICY_CLASSES
from mirrors.domain.specs import ClusterSpec, FlowSpec
from tests.domain.cases import cluster, laws

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)
REFERENCES = st.sampled_from(
    ["env:KAFKA_PW", "file:/run/secrets/pw", "file:/pw", "properties:/run/secrets/a:b.c"]
)
STORES = [
    "", "file:/run/secrets/ca.pem", "env:KAFKA_CA", "store:/run/secrets/t.jks",
    "store:/run/secrets/t.jks:env:KAFKA_STORE",
]  # fmt: skip
USERS = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=9)


@st.composite
def clusters(draw: st.DrawFn, alias: str) -> ClusterSpec:
    protocol = draw(st.sampled_from(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]))
    fields: dict[str, str] = {}
    properties = draw(
        st.fixed_dictionaries(
            {}, optional={"request.timeout.ms": st.sampled_from(["5000", "9000"])}
        )
    )
    if draw(st.booleans()):
        properties["schema.registry.url"] = "https://a.example:8081,https://b.example/ccompat/v7"
        properties["schema.registry.bearer.auth.token"] = draw(REFERENCES)
        properties["schema.registry.ssl.ca"] = draw(REFERENCES)
    if protocol.startswith("SASL_"):
        mechanism = draw(st.sampled_from(["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]))
        fields |= {"sasl_mechanism": mechanism, "sasl_username": draw(USERS.filter(_plain))}
        fields["sasl_password"] = draw(REFERENCES)
        if mechanism == "OAUTHBEARER":
            properties["sasl.oauthbearer.token.endpoint.url"] = "https://login.example/token"
            properties["sasl.oauthbearer.scope"] = draw(NAMES)
    if protocol.endswith("SSL"):
        fields["ssl_ca"] = draw(st.sampled_from(STORES))
        properties["ssl.endpoint.identification.algorithm"] = draw(
            st.sampled_from(["https", "none"])
        )
        if draw(st.booleans()):
            store = "store:/run/secrets/k.p12:properties:/run/secrets/a:b.c"
            pair = draw(st.tuples(REFERENCES, REFERENCES) | st.just((store, store)))
            fields |= dict(zip(("ssl_certificate", "ssl_key"), pair, strict=True))
    servers = f"{alias}.example:9092,[::1]:9093" if alias == "a-side" else f"{alias}.example:9092"
    return cluster(
        alias,
        bootstrap_servers=servers,
        security_protocol=protocol,
        properties=properties,
        **fields,
    )


def _plain(text: str) -> bool:
    return "${" not in text


@st.composite
def flows(draw: st.DrawFn) -> FlowSpec:
    properties = st.fixed_dictionaries(
        {},
        optional={
            "replication.factor": st.sampled_from(["-1", "1", "3"]),
            "topics": st.lists(NAMES, unique=True, max_size=3).map(",".join),
            "topics.exclude": st.sampled_from([r"mm2.*\.internal, a\\b", "x"]),
            "replication.policy.class": st.sampled_from(["IdentityReplicationPolicy"]),
            "replication.policy.separator": st.sampled_from(["_", "-"]),
            "tasks.max": st.integers(1, 9).map(str),
            "delivery": st.sampled_from(["exactly_once", "at_least_once"]),
            "start.from": st.sampled_from(["earliest", "latest", "2026-11-21T08:30:00Z"]),
            "commit.interval.ms": st.integers(10, 999).map(str),
            "refresh.topics.interval.seconds": st.integers(1, 900).map(str),
            "errors.tolerance": st.just("none"),
            "consumer.fetch.min.bytes": st.integers(1, 99).map(str),
            "consumer.isolation.level": st.sampled_from(["read_committed", "read_uncommitted"]),
            "producer.linger.ms": st.integers(0, 99).map(str),
            "producer.override.batch.size": st.integers(1, 99).map(str),
        },
    )
    sides = {side: draw(clusters(side)) for side in ("a-side", "b.side")}
    return FlowSpec.build(
        source=sides["a-side"], target=sides["b.side"], properties=draw(properties)
    )


def meaning(spec: FlowSpec) -> object:
    settings = spec.settings
    kind = POLICY_CLASSES[settings.replication_policy_class]
    return (
        spec.name,
        spec.source,
        spec.target,
        dataclasses.replace(
            settings, replication_policy_class=kind, consumer=_with_isolation(spec)
        ),
    )


def _with_isolation(spec: FlowSpec) -> dict[str, str]:
    return {**spec.settings.consumer, "isolation.level": spec.settings.isolation_level}


@laws
@given(flows())
def test_an_exported_flow_is_imported_as_it_was(spec: FlowSpec) -> None:
    assert not spec.source.validate()
    text = write_mm2([spec])
    plan = plan_import("mm2-properties", text)
    assert not plan.refused, (plan.refused, text)
    assert [meaning(found) for found in plan.flows] == [meaning(spec)]
    assert [changed_settings(spec, found) for found in plan.flows] == [[]]
    assert sorted(write_mm2(plan.flows).split("\n")) == sorted(text.split("\n"))


def test_flows_of_one_file_do_not_touch_each_other() -> None:
    a, b, c = cluster("a"), cluster("b"), cluster("c")
    specs = [
        FlowSpec.build(source=a, target=b, properties={"topics": "x", "replication.factor": "1"}),
        FlowSpec.build(
            source=b,
            target=c,
            properties={"replication.factor": "3", "replication.policy.class": IDENTITY_POLICY},
        ),
    ]
    plan = plan_import("mm2-properties", write_mm2(specs))
    assert [meaning(spec) for spec in plan.flows] == [meaning(spec) for spec in specs]


def test_bounds_by_offset_and_windows_cross_a_properties_file() -> None:
    properties = {
        "topics": "orders",
        "replication.factor": "1",
        "start.from": "orders:0:1500,orders:1:1700",
        "run.until": "orders:0:1600,orders:1:1800",
    }
    nightly = {
        "replication.factor": "1",
        "run.schedule": "0 22 * * *",
        "run.schedule.zone": "Europe/Berlin",
        "run.window.minutes": "480",
    }
    a, b = cluster("a"), cluster("b")
    specs = [
        FlowSpec.build(source=a, target=b, properties=properties),
        FlowSpec.build(source=b, target=a, properties=nightly),
    ]
    plan = plan_import("mm2-properties", write_mm2(specs))
    assert not plan.refused, plan.refused
    assert [meaning(spec) for spec in plan.flows] == [meaning(spec) for spec in specs]


def test_offsets_of_a_topic_that_the_flow_does_not_copy_are_not_imported() -> None:
    text = (
        "clusters=a,b\na.bootstrap.servers=a:1\nb.bootstrap.servers=b:1\na->b.enabled=true\n"
        "a->b.topics=payments\na->b.start.from=orders:0:5\n"
    )
    assert "names orders, which the flow does not replicate" in str(
        plan_import("mm2-properties", text)
    )
