"""A password or token crosses the network without TLS only to addresses that are allowed."""

from __future__ import annotations

import dataclasses
import re
import time
from pathlib import Path

import pytest
from django.conf import settings

from controlplane import checks
from mirrors.domain.errors import KafkaUnavailable
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security import cleartext_logins
from mirrors.kafka.security.connection_settings import ConnectionFacts, connection_facts
from mirrors.kafka.security.oauth import fetch_token
from mirrors.kafka.security.secrets import Secret, check_reference
from mirrors.models import Cluster
from mirrors.services.clusters import problems_of
from mirrors.services.runners.processes import _environment as runner_environment
from monitoring.models import Channel
from spark_runner.kafka_protocol.connection import Connection

SPEC = ClusterSpec(
    alias="west",
    bootstrap_servers="127.0.0.1:9092,kafka-1.example:9092",
    security_protocol="SASL_PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_username="copier",
    sasl_password="env:KAFKA_WEST",
)
TOKEN = dataclasses.replace(
    SPEC,
    bootstrap_servers="127.0.0.1:9092",
    sasl_mechanism="OAUTHBEARER",
    properties={"sasl.oauthbearer.token.endpoint.url": "http://login.example/token"},
)


@pytest.fixture(autouse=True)
def no_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    # The secured brokers of this folder keep their secrets elsewhere.
    for name in (cleartext_logins.VARIABLE, "UNDERSTUDY_SECRET_ROOTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KAFKA_WEST", "hunter2")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.8.0.1", "::1", "[::1]", "localhost", "LOCALHOST."]
)
def test_loopback_is_always_allowed(host: str) -> None:
    assert cleartext_logins.is_allowed(host, 9092, environ={})


@pytest.mark.parametrize("host", ["10.0.0.1", "kafka", "localhost.example", "fd00::1"])
def test_nothing_else_is_allowed_without_the_setting(host: str) -> None:
    for value in ("", " , ", "other:9092"):
        assert not cleartext_logins.is_allowed(
            host, 9092, environ={cleartext_logins.VARIABLE: value}
        )
    assert cleartext_logins.is_allowed(host, 9092, environ={cleartext_logins.VARIABLE: f"x,{host}"})


def test_a_cluster_whose_password_could_be_read_is_refused_before_it_is_saved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [said] = problems_of(SPEC)["security_protocol"]
    assert "would send the password to kafka-1.example:9092 without encryption" in said
    assert "127.0.0.1" not in said
    assert cleartext_logins.VARIABLE in said
    for better in ({"sasl_mechanism": "SCRAM-SHA-512"}, {"security_protocol": "SASL_SSL"}):
        assert problems_of(dataclasses.replace(SPEC, **better)) == {}
    monkeypatch.setenv(cleartext_logins.VARIABLE, "*.example:9092")
    assert problems_of(SPEC) == {}


def test_the_client_secret_of_a_token_endpoint_is_not_sent_over_http() -> None:
    [said] = problems_of(TOKEN)["properties"]
    assert "login.example:80 would receive the client secret without encryption" in said
    with pytest.raises(KafkaUnavailable, match=r"login\.example:80 would receive"):
        fetch_token(TOKEN, deadline_s=1)
    safe = dataclasses.replace(
        TOKEN, properties={"sasl.oauthbearer.token.endpoint.url": "https://login.example/token"}
    )
    assert problems_of(safe) == {}


def test_saved_clusters_are_refused_where_the_connection_is_made() -> None:
    with pytest.raises(KafkaUnavailable, match="without encryption") as refused:
        connection_facts(SPEC)
    assert refused.value.code == "cleartext_login"
    assert "hunter2" not in refused.value.message


@pytest.mark.parametrize("client", ["control plane", "engine"])
def test_a_broker_that_advertises_another_address_is_sent_no_password(
    client: str,
) -> None:
    facts = ConnectionFacts(
        alias="west",
        bootstrap=(("127.0.0.1", 9092),),
        mechanism="PLAIN",
        username="copier",
        password=Secret("hunter2"),
    )
    deadline = time.monotonic() + 2
    log_in = {
        "control plane": BrokerConnection(facts, "192.0.2.1", 9092, client_id="test"),
        "engine": Connection(facts, "192.0.2.1", 9092),
    }[client].connect
    with pytest.raises(KafkaUnavailable) as refused:
        log_in(deadline)
    assert refused.value.code == "cleartext_login"


def test_the_deploy_check_names_what_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.cleartext_logins(None) == []
    monkeypatch.setenv(cleartext_logins.VARIABLE, "10.0.0.0/8")
    [warning] = checks.cleartext_logins(None)
    assert "10.0.0.0/8" in warning.msg


def test_after_an_upgrade_the_check_names_what_is_refused(db: None) -> None:
    assert checks.refused_settings(None, databases=["default"]) == []
    Cluster.objects.create(**dataclasses.asdict(SPEC))
    good = {"alias": "good", "bootstrap_servers": "127.0.0.1:1", "security_protocol": "SSL"}
    Cluster.objects.create(**good, ssl_ca="file:/run/secrets/ca.pem")
    Cluster.objects.create(**good | {"alias": "old"}, ssl_ca="env:UNDERSTUDY_OLD_CA")
    Channel.objects.create(name="pager", kind="webhook", target="https://x", secret="env:KAFKA_A")
    said = [found.msg for found in checks.refused_settings(None, databases=["default"])]
    assert [words.partition(" cannot connect: ")[0] for words in said] == [
        "Cluster old",
        "Cluster west",
        "Channel pager",
    ]
    assert "belongs to Understudy itself" in said[0]
    assert checks.refused_settings(None) == []


def test_the_runner_inherits_no_secret_of_ours_and_knows_which_files_hold_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("UNDERSTUDY_SECRET_KEY_FILE", "/run/secrets/django")
    monkeypatch.setenv("UNDERSTUDY_SMTP_PASSWORD", "hunter2")
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_SLACK", "hunter2")
    passed = runner_environment()
    assert "hunter2" not in {value for name, value in passed.items() if name != "KAFKA_WEST"}
    assert "UNDERSTUDY_SECRET_KEY_FILE" not in passed
    assert check_reference("file:/run/secrets/django", environ=passed) is not None
    assert check_reference("file:/run/secrets/primary", environ=passed) is None


def test_the_runner_inherits_none_of_the_secrets_that_the_programs_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = "".join(
        path.read_text() for path in Path(settings.BASE_DIR, "controlplane").rglob("*.py")
    )
    names = set(re.findall(r'env_secret\("([A-Z_]+)"', code))
    assert {"DATABASE_URL", "UNDERSTUDY_OIDC_CLIENT_SECRET"} <= names
    for name in names:
        monkeypatch.setenv(name, "hunter2")
        monkeypatch.setenv(f"{name}_FILE", "/run/secrets/hunter2")
    passed = runner_environment()
    assert [name for name in passed if name.removesuffix("_FILE") in names] == []
