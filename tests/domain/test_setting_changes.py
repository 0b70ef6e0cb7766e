"""The audit record of an edit: old and new values, references, never a secret."""

from __future__ import annotations

import pytest

from mirrors.domain.settings.changes import HIDDEN, initial_changes, redacted_value


@pytest.mark.parametrize(
    "key",
    ["producer.sasl.password", "consumer.ssl.key.password", "client_secret", "sasl.jaas.config"],
)
def test_a_secret_is_hidden_and_a_reference_is_not(key: str) -> None:
    assert redacted_value(key, "hunter2") == HIDDEN
    assert redacted_value(key, "env:KAFKA_PASSWORD") == "env:KAFKA_PASSWORD"
    assert redacted_value(key, "file:/run/secrets/one") == "file:/run/secrets/one"
    assert redacted_value(key, None) is None


def test_every_other_value_is_kept_as_it_is() -> None:
    assert redacted_value("topics", "orders.*") == "orders.*"
    assert redacted_value("replication.policy.separator", "") == ""


def test_what_a_flow_is_made_with_is_its_first_edit() -> None:
    assert initial_changes({"topics": "b", "delivery": "x"}) == [
        {"key": "delivery", "before": None, "after": "x"},
        {"key": "topics", "before": None, "after": "b"},
    ]
