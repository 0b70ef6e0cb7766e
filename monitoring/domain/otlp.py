"""The standard variables of OpenTelemetry's OTLP exporter, as settings of the push of metrics.

A variable of OTLP may be given for metrics alone: `OTEL_EXPORTER_OTLP_METRICS_TIMEOUT` before
`OTEL_EXPORTER_OTLP_TIMEOUT`. An empty one is as if not set.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping

from mirrors.domain.errors import UnderstudyError

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
CERTIFICATE = "OTEL_EXPORTER_OTLP_CERTIFICATE"
CLIENT_CERTIFICATE = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"
CLIENT_KEY = "OTEL_EXPORTER_OTLP_CLIENT_KEY"
RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"
_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
_COMPRESSION = "OTEL_EXPORTER_OTLP_COMPRESSION"
_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_LIMIT = "OTEL_METRIC_EXPORT_TIMEOUT"
_SERVICE = "OTEL_SERVICE_NAME"
_EXPORTER = "OTEL_METRICS_EXPORTER"
_DISABLED = "OTEL_SDK_DISABLED"

# Milliseconds: default, least, most.
_TIMES = {
    _TIMEOUT: (10_000, 100, 60_000),
    _INTERVAL: (60_000, 5_000, 3_600_000),
    _LIMIT: (30_000, 100, 600_000),
}


class WrongVariable(UnderstudyError):
    """A variable of OTLP cannot be used. The sentence names it, and no value of a header."""

    code = "otlp_variable"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PushSettings:
    """Where metrics are pushed, how often, and the limits in seconds.

    - `timeout_s` is that of one request, `limit_s` that of all requests of a push.
    - `headers` may hold references to secrets. Files are paths, empty for none.
    - `resource`: attributes that identify this installation.
    """

    url: str
    headers: Mapping[str, str]
    resource: Mapping[str, str]
    interval_s: float
    timeout_s: float
    limit_s: float
    gzip: bool
    certificate: str = ""
    client_certificate: str = ""
    client_key: str = ""


def read_settings(environ: Mapping[str, str], *, version: str) -> PushSettings | None:
    """None if metrics are not pushed. Raises WrongVariable."""
    address = _first(environ, ENDPOINT)
    exporters = environ.get(_EXPORTER, "").strip() or "otlp"
    is_off = environ.get(_DISABLED, "").strip().lower() == "true"
    if not address or is_off or "otlp" not in exporters.split(","):
        return None
    _refuse_other_forms(environ)
    interval_s = _seconds(environ, _INTERVAL)
    return PushSettings(
        url=_url(environ),
        headers=_pairs(HEADERS, _first(environ, HEADERS)),
        resource={
            "service.name": "understudy",
            "service.version": version,
            **_pairs(RESOURCE, environ.get(RESOURCE, "")),
            **({"service.name": name} if (name := environ.get(_SERVICE, "").strip()) else {}),
        },
        interval_s=interval_s,
        timeout_s=_seconds(environ, _TIMEOUT),
        # Another worker may begin the next push after the interval.
        limit_s=min(interval_s, _seconds(environ, _LIMIT)),
        gzip=_first(environ, _COMPRESSION) == "gzip",
        certificate=_first(environ, CERTIFICATE),
        client_certificate=_first(environ, CLIENT_CERTIFICATE),
        client_key=_first(environ, CLIENT_KEY),
    )


def _for_metrics(name: str) -> str:
    return name.replace("_OTLP_", "_OTLP_METRICS_")


def _first(environ: Mapping[str, str], name: str) -> str:
    return environ.get(_for_metrics(name), "").strip() or environ.get(name, "").strip()


def _refuse_other_forms(environ: Mapping[str, str]) -> None:
    for name, value, allowed in (
        (_PROTOCOL, _first(environ, _PROTOCOL), "http/protobuf"),
        (_TEMPORALITY, environ.get(_TEMPORALITY, "").strip().lower(), "cumulative"),
    ):
        if value not in ("", allowed):
            raise WrongVariable(
                f"{name} is {value[:40]!r}; metrics are pushed as {allowed} only. Remove the "
                "variable here, or let a collector convert them."
            )
    if (value := _first(environ, _COMPRESSION)) not in ("", "none", "gzip"):
        raise WrongVariable(f"{_COMPRESSION} is {value[:40]!r}; it must be gzip or none.")
    if bool(_first(environ, CLIENT_CERTIFICATE)) != bool(_first(environ, CLIENT_KEY)):
        raise WrongVariable(f"{CLIENT_CERTIFICATE} and {CLIENT_KEY} must be set together.")


def _url(environ: Mapping[str, str]) -> str:
    """The address for metrics as it is, or that for all signals with `v1/metrics` after it."""
    name = _for_metrics(ENDPOINT)
    given = environ.get(name, "").strip()
    if not given:
        name, given = ENDPOINT, f"{environ[ENDPOINT].strip().rstrip('/')}/v1/metrics"
    try:
        parts = urllib.parse.urlsplit(given)
        has_port = parts.port is None or parts.port > 0
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and has_port
    except ValueError:
        good = False
    # The address may have a secret, so it is not repeated.
    if not good or parts.username is not None:
        raise WrongVariable(
            f"{name} is not a URL such as https://collector.example.com:4318, without a user."
        )
    return given


def _seconds(environ: Mapping[str, str], name: str) -> float:
    default, least, most = _TIMES[name]
    text = _first(environ, name)
    if not text:
        return default / 1000
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise WrongVariable(f"{name} is {text[:40]!r}; it must be whole milliseconds.")
    if not least <= int(text) <= most:
        raise WrongVariable(
            f"{name} is {int(text):,} milliseconds; it must be from {least:,} to {most:,}."
        )
    return int(text) / 1000


def _pairs(name: str, text: str) -> dict[str, str]:
    """`key1=value1,key2=value2`; characters of values may be percent-encoded."""
    found = {}
    for number, part in enumerate(filter(None, (part.strip() for part in text.split(","))), 1):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise WrongVariable(
                f"{name}: part {number} is not NAME=VALUE. Parts are separated by commas; write a "
                "comma in a value as %2C."
            )
        found[urllib.parse.unquote(key.strip())] = urllib.parse.unquote(value.strip())
    return found
