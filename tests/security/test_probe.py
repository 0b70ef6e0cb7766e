"""The connection test: what a working connection reports, and which address a failure means."""

from __future__ import annotations

import dataclasses
import json

import pytest

from controlplane.demo.processes.ports import HOST, free_port
from tests.security.connection_attempts import WAYS_IN, ask
from tests.security.secured import LIMITED, NOWHERE, SecuredBroker


@pytest.mark.parametrize(("listener", "mechanism"), WAYS_IN)
def test_a_right_login_is_reported_with_cluster_brokers_versions_and_rights(
    secured: SecuredBroker, listener: str, mechanism: str
) -> None:
    report = ask(secured.spec(listener, mechanism))
    assert (report.reachable, report.code, report.warnings) == (True, "ok", ())
    assert report.cluster_id
    assert report.version.startswith("4.")
    assert report.features["transaction.version"] == 2
    assert [(broker.reachable, broker.reason) for broker in report.brokers] == [(True, "")]
    granted = {right.name: right.allowed for right in report.rights}
    assert granted["create topics"] is granted["transactional write"] is True
    json.dumps(report.to_dict())


@pytest.mark.parametrize("listener", ["ADVERTISED", "ADVERTISEDTLS"])
def test_a_broker_that_advertises_an_address_nobody_reaches_is_named(
    secured: SecuredBroker, listener: str
) -> None:
    report = ask(secured.spec(listener))
    assert (report.reachable, report.code) == (False, "advertised")
    assert f"Broker 1 advertises {NOWHERE}:" in report.message
    assert f"start at {secured.address(listener)} are sent there" in report.message
    assert "advertised.listeners" in report.message


def test_the_second_address_serves_when_the_first_fails(secured: SecuredBroker) -> None:
    spec = secured.spec("TLS")
    both = f"{HOST}:{free_port()},{spec.bootstrap_servers}"
    report = ask(dataclasses.replace(spec, bootstrap_servers=both))
    assert report.reachable
    assert "refused the connection" in report.warnings[0]


def test_a_missing_secret_is_named_by_its_reference(secured: SecuredBroker) -> None:
    report = ask(secured.spec("LOGIN", "PLAIN", sasl_password="env:KAFKA_TEST_UNSET"))
    assert report.code == "secret_unavailable"
    assert "env:KAFKA_TEST_UNSET cannot be resolved" in report.message


def test_settings_that_do_not_fit_are_named_by_field(secured: SecuredBroker) -> None:
    report = ask(secured.spec("LOGIN", "PLAIN", sasl_mechanism="GSSAPI"))
    assert report.code == "invalid"
    assert "SCRAM-SHA-512" in report.message


def test_addresses_outside_the_egress_list_are_refused(
    secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_EGRESS_ALLOW", f"{HOST}:1-2")
    report = ask(secured.spec("TLS"))
    assert report.code == "egress_denied"
    assert "UNDERSTUDY_EGRESS_ALLOW" in report.message


def test_advertised_addresses_outside_the_egress_list_are_refused(
    secured: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_EGRESS_ALLOW", "127.0.0.0/8")
    report = ask(secured.spec("ADVERTISED"))
    assert report.code == "advertised"
    assert f"Connections to {NOWHERE}" in report.message


def test_rights_are_told_apart_without_writing(secured: SecuredBroker) -> None:
    spec = secured.spec(
        "LOGIN", "PLAIN", sasl_username=LIMITED, sasl_password="env:KAFKA_TEST_LIMITED"
    )
    report = ask(spec)
    assert report.reachable
    rights = {right.name: right for right in report.rights}
    assert rights["describe cluster"].allowed is False
    assert rights["create topics"].allowed is None
    assert rights["list topics"].allowed is None
    assert rights["transactional write"].allowed is False
    assert "prefix understudy." in rights["transactional write"].words
