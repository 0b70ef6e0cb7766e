"""Each kind of TLS failure is named; every one is provoked on a real listener."""

from __future__ import annotations

import pytest

from tests.security.authority import private_pem
from tests.security.connection_attempts import ask, plain
from tests.security.secured import SecuredBroker
from tests.security.vault import Vault

WRONG_CERTIFICATES = [
    ("EXPIRED", "tls_expired", "has expired"),
    ("FUTURE", "tls_not_yet_valid", "is not valid yet"),
    (
        "ELSEWHERE",
        "tls_wrong_host",
        "is for kafka-1.elsewhere.example, 10.9.8.7, not for 127.0.0.1",
    ),
    ("UNKNOWNCA", "tls_unknown_ca", "was not issued by the CA in file:"),
]


@pytest.mark.parametrize(("listener", "code", "words"), WRONG_CERTIFICATES)
def test_a_wrong_certificate_is_named_by_what_is_wrong_with_it(
    secured: SecuredBroker, listener: str, code: str, words: str
) -> None:
    report = ask(secured.spec(listener))
    assert (report.reachable, report.code) == (False, code)
    assert words in report.message
    assert secured.address(listener) in report.message


def test_the_dates_of_a_certificate_out_of_date_are_told(secured: SecuredBroker) -> None:
    assert "GMT" in ask(secured.spec("EXPIRED")).message
    assert "GMT" in ask(secured.spec("FUTURE")).message


def test_a_certificate_about_to_expire_is_a_warning(secured: SecuredBroker) -> None:
    report = ask(secured.spec("ENDING"))
    assert report.reachable
    assert "expires in 4 days" in report.warnings[0]


def test_without_a_ca_of_ours_the_system_decides(secured: SecuredBroker) -> None:
    report = ask(secured.spec("TLS", ssl_ca=""))
    assert report.code == "tls_unknown_ca"
    assert "by a CA that this host trusts" in report.message


def test_a_host_name_check_switched_off_lets_the_wrong_host_pass(secured: SecuredBroker) -> None:
    off = {"ssl.endpoint.identification.algorithm": "none"}
    assert ask(secured.spec("ELSEWHERE", properties=off)).reachable


def test_a_missing_client_certificate_is_named(secured: SecuredBroker) -> None:
    report = ask(secured.spec("MTLS", ssl_certificate="", ssl_key=""))
    assert report.code == "tls_client_certificate"
    assert "ssl_certificate and ssl_key" in report.message


def test_a_client_certificate_of_a_stranger_is_named(secured: SecuredBroker, vault: Vault) -> None:
    issued = vault.stranger.issue("copier-by-certificate")
    spec = secured.spec(
        "MTLS",
        ssl_certificate=vault.put("unknown-ca.pem", issued.certificate),
        ssl_key=vault.put("unknown-ca.key", issued.key),
    )
    report = ask(spec)
    assert report.code == "tls_client_certificate"
    assert "does not accept the client certificate" in report.message


def test_a_key_of_another_certificate_is_refused_before_connecting(
    secured: SecuredBroker, vault: Vault
) -> None:
    other = vault.put("other.key", vault.authority.issue("somebody").key)
    report = ask(secured.spec("MTLS", ssl_key=other))
    assert report.code == "secret_unavailable"
    assert "must match" in report.message


def test_an_encrypted_key_is_refused_and_no_terminal_is_asked(
    secured: SecuredBroker, vault: Vault
) -> None:
    locked = vault.put("locked.key", private_pem(vault.authority._key, b"passphrase"))
    report = ask(secured.spec("MTLS", ssl_key=locked))
    assert "is encrypted" in report.message


def test_plaintext_to_a_tls_port_is_named(secured: SecuredBroker) -> None:
    report = ask(plain(secured.port("TLS")))
    assert report.code == "plaintext_on_tls"
    assert "speaks TLS, but the cluster is set to PLAINTEXT" in report.message


def test_a_sasl_login_without_tls_to_a_tls_port_is_named(secured: SecuredBroker) -> None:
    report = ask(secured.spec("LOGIN", "PLAIN", bootstrap_servers=secured.address("LOGINTLS")))
    assert report.code == "plaintext_on_tls"


def test_tls_to_a_plaintext_port_is_named(secured: SecuredBroker) -> None:
    report = ask(secured.spec("TLS", bootstrap_servers=secured.broker.bootstrap))
    assert report.code == "tls_on_plaintext"
    assert "without TLS" in report.message
