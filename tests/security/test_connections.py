"""What every client shares: connection settings, and tokens that are renewed in time."""

from __future__ import annotations

import ssl
import time
import uuid

import pytest

from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.connection.client_config import client_config
from mirrors.kafka.protocol.connection import BrokerConnection
from mirrors.kafka.security.connection_settings import connection_facts
from tests.security.connection_attempts import WAYS_IN
from tests.security.secured import SecuredBroker


@pytest.mark.parametrize(("listener", "mechanism"), WAYS_IN)
def test_the_facts_of_a_connection_are_enough_for_a_client_of_our_own(
    secured: SecuredBroker, listener: str, mechanism: str
) -> None:
    facts = connection_facts(secured.spec(listener, mechanism))
    connection = BrokerConnection(facts, *facts.bootstrap[0], client_id="test")
    with connection.connect(time.monotonic() + 10):
        assert connection.features["transaction.version"] == 2


def test_a_cluster_with_a_ca_of_its_own_needs_no_other(
    secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("The system's CAs are read, which takes long.")

    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", refuse)
    facts = connection_facts(secured.spec("TLS"))
    assert facts.tls is not None
    assert facts.tls.cert_store_stats()["x509"] == 1


def test_a_token_is_renewed_before_it_ends_and_the_connection_lives_on(
    secured: SecuredBroker,
) -> None:
    short = {"sasl.oauthbearer.token.endpoint.url": f"{secured.issuer.url}/short"}
    spec = secured.spec("LOGIN", "OAUTHBEARER", properties=short)
    with Admin(spec) as admin:
        served, ends = secured.issuer.served, time.monotonic() + 7
        while time.monotonic() < ends:
            assert admin.topic_names(deadline_s=20) is not None
            time.sleep(0.5)
    assert secured.issuer.served > served


def test_many_clients_share_one_token(secured: SecuredBroker) -> None:
    spec = secured.spec("LOGIN", "OAUTHBEARER", alias=f"shared-{uuid.uuid4().hex[:6]}")
    before = secured.issuer.served
    for _ in range(5):
        client_config(spec, client_id="test")
    assert secured.issuer.served == before + 1
    assert secured.issuer.scopes[-1] == "kafka"


def test_both_clients_send_extensions_with_their_token(secured: SecuredBroker) -> None:
    properties = {
        "sasl.oauthbearer.token.endpoint.url": f"{secured.issuer.url}/token",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-x",
    }
    spec = secured.spec("LOGIN", "OAUTHBEARER", alias="extended", properties=properties)
    facts = connection_facts(spec)
    with BrokerConnection(facts, *facts.bootstrap[0], client_id="test").connect(
        time.monotonic() + 10
    ) as connection:
        assert connection is not None
    with Admin(spec) as admin:
        assert admin.topic_names(deadline_s=10) is not None
