"""A cluster's connection settings: what is missing, superfluous or impossible, per field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.settings.references import reference_problems, same_secret
from mirrors.domain.specs import ClusterSpec
from tests.domain.cases import cluster, laws

SCRAM = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_username": "mirror",
    "sasl_password": "env:KAFKA_PASSWORD",
}
OAUTH = SCRAM | {
    "sasl_mechanism": "OAUTHBEARER",
    "properties": {"sasl.oauthbearer.token.endpoint.url": "https://login.example/token"},
}
REGISTRY = {"schema.registry.url": "https://a.example:8081, http://10.0.0.1/apis/ccompat/v7"}
TLS = {"security_protocol": "SSL", "ssl_ca": "file:/run/secrets/ca.pem"}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"alias": "us-west.1_a"},
        {"bootstrap_servers": "a:1,b.example.com:65535 , [::1]:9092, 10.0.0.1:9092"},
        TLS,
        TLS | {"ssl_certificate": "file:/a/c.pem", "ssl_key": "env:KEY"},
        TLS | {"properties": {"ssl.endpoint.identification.algorithm": "none"}},
        SCRAM,
        SCRAM | {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"},
        SCRAM | {"ssl_ca": "file:/run/secrets/ca.pem"},
        OAUTH,
        {"properties": {"request.timeout.ms": "5000", "client.dns.lookup": "use_all_dns_ips"}},
        {"properties": REGISTRY},
        {
            "properties": REGISTRY
            | {
                "schema.registry.basic.auth.username": "a",
                "schema.registry.basic.auth.password": "env:KAFKA_A",
                "schema.registry.ssl.ca": "file:/run/secrets/ca.pem",
            }
        },
    ],
    ids=str,
)
def test_settings_that_fit_each_other_are_fine(fields: dict[str, Any]) -> None:
    assert cluster(**({"alias": "primary"} | fields)).validate() == {}


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"alias": ""}, "alias", "An alias is required"),
        ({"alias": "a b"}, "alias", "only the characters"),
        ({"alias": "grün"}, "alias", "only the characters"),
        ({"alias": "a->b"}, "alias", "only the characters"),
        ({"alias": "a\n"}, "alias", "only the characters"),
        ({"alias": "a" * 101}, "alias", "101 characters"),
        ({"alias": ".a"}, "alias", "may not begin with a dot"),
        ({"alias": "__a"}, "alias", "a dot or two underscores"),
        ({"bootstrap_servers": " "}, "bootstrap_servers", "at least one broker"),
        ({"bootstrap_servers": "a"}, "bootstrap_servers", "'a' has no port; write host:port"),
        ({"bootstrap_servers": "a:1,"}, "bootstrap_servers", "an empty element"),
        ({"bootstrap_servers": "a:0"}, "bootstrap_servers", "a port from 1 to 65535"),
        ({"bootstrap_servers": "a:65536"}, "bootstrap_servers", "a port from 1 to 65535"),
        ({"bootstrap_servers": "a:9b"}, "bootstrap_servers", "a port from 1 to 65535"),
        ({"bootstrap_servers": "kafka://a:1"}, "bootstrap_servers", "is a URL; write host:port"),
        ({"bootstrap_servers": "::1:9092"}, "bootstrap_servers", "square brackets"),
        ({"bootstrap_servers": "[::1]"}, "bootstrap_servers", "has no port"),
        ({"bootstrap_servers": "a b:1"}, "bootstrap_servers", "host name or address"),
        ({"bootstrap_servers": "a/b:1"}, "bootstrap_servers", "host name or address"),
        ({"bootstrap_servers": "a:1;b:2"}, "bootstrap_servers", "host name or address"),
        ({"security_protocol": "TLS"}, "security_protocol", "one of PLAINTEXT, SSL"),
        ({"sasl_username": "a"}, "sasl_username", "PLAINTEXT does not use it"),
        ({"ssl_ca": "env:CA"}, "ssl_ca", "PLAINTEXT does not use it"),
        (TLS | {"sasl_password": "env:P"}, "sasl_password", "SSL does not use it"),
        (TLS | {"ssl_key": "env:KEY"}, "ssl_certificate", "or neither"),
        (TLS | {"ssl_certificate": "env:CERT"}, "ssl_key", "or neither"),
        (TLS | {"ssl_ca": "/etc/ca.pem"}, "ssl_ca", "Enter a reference"),
        (TLS | {"ssl_ca": "file:ca.pem"}, "ssl_ca", "Enter a reference"),
        (TLS | {"ssl_ca": "file:/a/../b"}, "ssl_ca", "without .."),
        (TLS | {"ssl_ca": "env:A B"}, "ssl_ca", "Enter a reference"),
        (SCRAM | {"sasl_mechanism": "GSSAPI"}, "sasl_mechanism", "with SCRAM-SHA-512"),
        (SCRAM | {"sasl_username": ""}, "sasl_username", "needs the user name here"),
        (SCRAM | {"sasl_password": ""}, "sasl_password", "needs a reference to the password"),
        (SCRAM | {"sasl_username": "a\tb"}, "sasl_username", "printable text"),
        (OAUTH | {"sasl_username": ""}, "sasl_username", "needs the client id here"),
        (OAUTH | {"properties": {}}, "properties", "OAUTHBEARER needs sasl.oauthbearer.token"),
        (OAUTH | {"properties": {"sasl.oauthbearer.token.endpoint.url": "file:///etc/passwd"}},
         "properties", "begins with https:// or http://"),
        (SCRAM | {"properties": {"sasl.oauthbearer.scope": "a"}}, "properties",
         "only OAUTHBEARER uses it"),
        ({"properties": {"ssl.endpoint.identification.algorithm": "none"}}, "properties",
         "PLAINTEXT does not use it"),
        ({"properties": {"plugin.library.paths": "/x"}}, "properties", "it loads code"),
        ({"properties": {"sasl.kerberos.kinit.cmd": "x"}}, "properties", "it runs a command"),
        ({"properties": {"sasl.jaas.config": "x"}}, "properties", "can load code"),
        ({"properties": {"ssl.truststore.location": "/x"}}, "properties", "reads a file"),
        ({"properties": {"security.providers.class": "x"}}, "properties", "it loads code"),
        ({"properties": {"request.timeout": "1"}}, "properties", "Did you mean request.timeout.ms"),
        ({"properties": {"request.timeout.ms": "1"}}, "properties", "from 1000 to 60000, not 1"),
        ({"properties": {"fetch.min.bytes": "1"}}, "properties", "not a supported client property"),
        ({"properties": {"retry.backoff.ms": 3}}, "properties", "must be text"),
        ({"properties": {"schema.registry.url": "registry:8081"}}, "properties", "one URL or more"),
        ({"properties": {"schema.registry.url": "http://a,,http://b"}}, "properties", "one URL or"),
        ({"properties": {"schema.registry.url": "http://a?x=1"}}, "properties", "one URL or more"),
        ({"properties": {"schema.registry.ssl.ca": "env:KAFKA_CA"}}, "properties",
         "schema.registry.url is not"),
        ({"properties": REGISTRY | {"schema.registry.basic.auth.username": "a"}}, "properties",
         "Set both schema.registry.basic.auth.username and"),
        ({"properties": REGISTRY | {"schema.registry.basic.auth.username": "a",
                                    "schema.registry.basic.auth.password": "hunter2"}},
         "properties", "never the secret"),
        ({"properties": REGISTRY | {"schema.registry.basic.auth.username": "a",
                                    "schema.registry.basic.auth.password": "env:KAFKA_A",
                                    "schema.registry.bearer.auth.token": "env:KAFKA_B"}},
         "properties", "not both"),
        ({"properties": REGISTRY | {"schema.registry.ssl.key": "env:KAFKA_A"}}, "properties",
         "or neither"),
        ({"properties": {"schema.registry.url": "http://a",
                         "schema.registry.ssl.ca": "env:KAFKA_A"}}, "properties",
         "no URL uses https"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_its_field(fields: dict[str, Any], field: str, words: str) -> None:
    problems = cluster(**({"alias": "primary"} | fields)).validate()
    assert list(problems) == [field]
    assert words in " ".join(problems[field])


@laws
@given(st.text(max_size=40).map(lambda text: f"S3cr3t{text}"))
def test_a_secret_typed_instead_of_a_reference_is_never_repeated(secret: str) -> None:
    assert reference_problems(secret)
    assert "S3cr3t" not in str(cluster("a", **(SCRAM | {"sasl_password": secret})).validate())


def test_all_fields_are_checked_at_once() -> None:
    spec = ClusterSpec(alias="a b", bootstrap_servers="x", security_protocol="SASL_SSL")
    assert set(spec.validate()) == {"alias", "bootstrap_servers", "sasl_mechanism"}


def test_an_alias_with_the_separator_in_it_is_warned_of() -> None:
    assert cluster("primary").warnings() == []
    (warning,) = cluster("us.west").warnings()
    assert "us.west contains the separator '.'" in warning


TEXTS = st.text("ab:/,.[]env:file0123 \n", max_size=20)


@laws
@given(
    alias=TEXTS, servers=TEXTS, password=TEXTS, protocol=st.sampled_from(["SSL", "SASL_SSL", "x"])
)
def test_any_text_is_judged_without_an_exception(
    alias: str, servers: str, password: str, protocol: str
) -> None:
    spec = ClusterSpec(
        alias=alias, bootstrap_servers=servers, security_protocol=protocol, sasl_password=password
    )
    assert all(sentence for sentences in spec.validate().values() for sentence in sentences)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("env:KAFKA_A", "env:KAFKA_A", True),
        ("env:KAFKA_A", "env:KAFKA_B", False),
        ("file:/run/secrets/../secrets/./a", "file:/run/secrets/a", True),
        ("properties:/run/secrets/a:password", "file:/run/secrets/a", True),
        ("properties:/run/secrets/a:password", "properties:/run/secrets/a:user", True),
        ("file:/run/secrets/a", "file:/run/secrets/b", False),
        ("file:/run/secrets/a", "", False),
    ],
)
def test_two_references_to_one_secret_are_found(one: str, other: str, same: bool) -> None:
    assert same_secret(one, [other, "PLAIN"]) is same
    assert same_secret(other or "env:X", [one]) is same
