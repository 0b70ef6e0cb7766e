"""The audit record of an edit: old and new values, references, never a secret."""

from __future__ import annotations

import pytest

from mirrors.domain.settings.changes import HIDDEN, first_edit, kept


@pytest.mark.parametrize(
    "key",
    ["producer.sasl.password", "consumer.ssl.key.password", "client_secret", "sasl.jaas.config"],
)
def test_a_secret_is_hidden_and_a_reference_is_not(key: str) -> None:
    assert kept(key, "hunter2") == HIDDEN
    assert kept(key, "env:KAFKA_PASSWORD") == "env:KAFKA_PASSWORD"
    assert kept(key, "file:/run/secrets/one") == "file:/run/secrets/one"
    assert kept(key, None) is None


def test_every_other_value_is_kept_as_it_is() -> None:
    assert kept("topics", "orders.*") == "orders.*"
    assert kept("replication.policy.separator", "") == ""


def test_what_a_flow_is_made_with_is_its_first_edit() -> None:
    assert first_edit({"topics": "b", "delivery": "x"}) == [
        {"key": "delivery", "before": None, "after": "x"},
        {"key": "topics", "before": None, "after": "b"},
    ]
