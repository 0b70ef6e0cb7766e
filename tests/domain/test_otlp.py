"""The standard variables of OpenTelemetry: what they mean here, and which are refused why."""

from __future__ import annotations

import pytest

from monitoring.domain.otlp import PushSettings, WrongVariable, read_settings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
GOOD = {ENDPOINT: "https://collector.example:4318/"}


def settings(**more: str) -> PushSettings:
    found = read_settings({**GOOD, **more}, version="1.2")
    assert found is not None
    return found


def test_the_address_alone_suffices() -> None:
    assert settings() == PushSettings(
        url="https://collector.example:4318/v1/metrics",
        headers={},
        resource={"service.name": "understudy", "service.version": "1.2"},
        interval_s=60,
        timeout_s=10,
        limit_s=30,
        gzip=False,
    )


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {ENDPOINT: " "},
        {**GOOD, "OTEL_SDK_DISABLED": "TRUE"},
        {**GOOD, "OTEL_METRICS_EXPORTER": "none"},
        {**GOOD, "OTEL_METRICS_EXPORTER": "prometheus"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_without_an_address_or_when_switched_off_nothing_is_pushed(environ: dict[str, str]) -> None:
    assert read_settings(environ, version="") is None


def test_variables_for_metrics_alone_count_before_those_for_all_signals() -> None:
    found = settings(
        OTEL_EXPORTER_OTLP_METRICS_ENDPOINT="http://other:9/otlp?a=1",
        OTEL_EXPORTER_OTLP_HEADERS="a=1",
        OTEL_EXPORTER_OTLP_METRICS_HEADERS="api-key=x%2Cy, team = b%20c ",
        OTEL_EXPORTER_OTLP_TIMEOUT="2000",
        OTEL_EXPORTER_OTLP_METRICS_COMPRESSION="gzip",
        OTEL_EXPORTER_OTLP_CERTIFICATE="/ca.pem",
        OTEL_EXPORTER_OTLP_METRICS_TIMEOUT="",
    )
    assert found.url == "http://other:9/otlp?a=1"
    assert found.headers == {"api-key": "x,y", "team": "b c"}
    assert (found.timeout_s, found.gzip, found.certificate) == (2, True, "/ca.pem")


def test_the_name_of_the_service_counts_before_the_attribute() -> None:
    attributes = {"OTEL_RESOURCE_ATTRIBUTES": "service.name=a,deployment.environment.name=prod"}
    assert settings(**attributes).resource["service.name"] == "a"
    assert settings(**attributes, OTEL_SERVICE_NAME="b").resource == {
        "service.name": "b",
        "service.version": "1.2",
        "deployment.environment.name": "prod",
    }


def test_a_push_never_lasts_longer_than_the_interval() -> None:
    assert settings(OTEL_METRIC_EXPORT_INTERVAL="5000").limit_s == 5
    assert settings(OTEL_METRIC_EXPORT_TIMEOUT="600000").limit_s == 60


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (ENDPOINT, "collector:4318", "is not a URL such as"),
        (ENDPOINT, "ftp://collector", "is not a URL such as"),
        (ENDPOINT, "https://", "is not a URL such as"),
        (ENDPOINT, "https://collector:port", "is not a URL such as"),
        (ENDPOINT, "https://user:hunter22@collector", "without a user"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "localhost:4318", "METRICS_ENDPOINT is not a URL"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "is 'grpc'; metrics are pushed as http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "http/json", "as http/protobuf only"),
        (
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
            "delta",
            "is 'delta'; metrics are pushed as cumulative only",
        ),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "it must be gzip or none"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10", "is 10 milliseconds; it must be from 100 to 60,000"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s", "it must be whole milliseconds"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "1000", "it must be from 5,000 to 3,600,000"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", "-1", "it must be whole milliseconds"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1,hunter22", "part 2 is not NAME=VALUE"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "=hunter22", "part 1 is not NAME=VALUE"),
        ("OTEL_RESOURCE_ATTRIBUTES", "prod", "part 1 is not NAME=VALUE"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key.pem", "must be set together"),
    ],
)
def test_what_cannot_be_used_is_one_sentence_without_secrets(
    name: str, value: str, words: str
) -> None:
    with pytest.raises(WrongVariable) as error:
        settings(**{name: value})
    assert name.removeprefix("OTEL_EXPORTER_OTLP_").removeprefix("METRICS_") in str(error.value)
    assert words in str(error.value)
    assert "hunter22" not in str(error.value)
