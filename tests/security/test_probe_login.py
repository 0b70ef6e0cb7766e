"""Each kind of SASL login failure is named; every one is provoked on a real broker."""

from __future__ import annotations

import pytest

from controlplane.demo.processes.ports import HOST, free_port
from tests.security.connection_attempts import ask, plain
from tests.security.secured import SecuredBroker


def test_a_missing_login_is_named_with_what_the_broker_offers(secured: SecuredBroker) -> None:
    report = ask(plain(secured.port("LOGIN")))
    assert report.code == "sasl_missing"
    assert "Set SASL_PLAINTEXT and one of OAUTHBEARER, PLAIN, SCRAM-SHA-256" in report.message
    tls = ask(secured.spec("TLS", bootstrap_servers=secured.address("LOGINTLS")))
    assert tls.code == "sasl_missing"
    assert "Set SASL_SSL" in tls.message


def test_a_login_nobody_asked_for_is_named(secured: SecuredBroker) -> None:
    report = ask(secured.spec("LOGIN", "PLAIN", bootstrap_servers=secured.broker.bootstrap))
    assert report.code == "sasl_not_wanted"
    assert "Set PLAINTEXT" in report.message


def test_a_wrong_mechanism_is_named_with_what_the_broker_offers(secured: SecuredBroker) -> None:
    report = ask(secured.spec("PLAINONLY", "SCRAM-SHA-512"))
    assert report.code == "sasl_mechanism"
    assert "it offers PLAIN." in report.message


@pytest.mark.parametrize("listener", ["LOGIN", "LOGINTLS"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_named_by_its_reference(
    secured: SecuredBroker, listener: str, mechanism: str
) -> None:
    report = ask(secured.spec(listener, mechanism, sasl_password="env:KAFKA_TEST_WRONG"))
    assert report.code == "sasl_password"
    assert "wrong user name or wrong password" in report.message
    assert "env:KAFKA_TEST_WRONG" in report.message


def test_an_unknown_user_is_named(secured: SecuredBroker) -> None:
    report = ask(secured.spec("LOGIN", "SCRAM-SHA-256", sasl_username="nobody"))
    assert report.code == "sasl_password"
    assert "'nobody'" in report.message


def test_a_wrong_client_secret_is_refused_by_the_token_endpoint(secured: SecuredBroker) -> None:
    report = ask(secured.spec("LOGIN", "OAUTHBEARER", sasl_password="env:KAFKA_TEST_WRONG"))
    assert report.code == "oauth_refused"
    assert "401 (invalid_client)" in report.message


TOKEN_FAULTS = [
    ("/foreign", "sasl_token", "rejected the token"),
    ("/page", "oauth_unusable", "did not return an access token"),
    ("/slow", "oauth_unreachable", "no response in time"),
]


@pytest.mark.parametrize(("path", "code", "words"), TOKEN_FAULTS)
def test_a_faulty_token_endpoint_is_named(
    secured: SecuredBroker, path: str, code: str, words: str
) -> None:
    url = {"sasl.oauthbearer.token.endpoint.url": secured.issuer.url + path}
    report = ask(secured.spec("LOGIN", "OAUTHBEARER", properties=url), deadline_s=2)
    assert report.code == code
    assert words in report.message


def test_a_token_endpoint_that_is_down_is_named(secured: SecuredBroker) -> None:
    url = {"sasl.oauthbearer.token.endpoint.url": f"http://{HOST}:{free_port()}/token?key=x"}
    report = ask(secured.spec("LOGIN", "OAUTHBEARER", properties=url))
    assert report.code == "oauth_unreachable"
    assert "connection refused" in report.message
    assert "key=x" not in report.message
