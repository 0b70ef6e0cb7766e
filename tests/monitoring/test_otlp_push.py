"""Metrics over OTLP: what a collector gets, and what is known when it gets nothing."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Iterator
from datetime import timedelta
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import DatabaseError
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.metrics.v1 import metrics_pb2
from prometheus_client.parser import text_string_to_metric_families

from controlplane.redaction import redact
from controlplane.worker import metrics_push
from mirrors import outbound_http
from monitoring.models import MetricsPush
from monitoring.otlp import messages, push
from monitoring.prometheus import metrics
from monitoring.prometheus.text_format import Series, encoded, labelled
from tests.monitoring.conftest import Receiver
from tests.pages import world
from tests.security.authority import Authority

SECRET = "s3cr3t-of-the-collector"
Points = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def environ(db: None, receiver: Receiver) -> dict[str, str]:
    base = receiver.url.partition("/hook")[0]
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": base, "OTEL_METRIC_EXPORT_INTERVAL": "5000"}


@pytest.fixture
def flow(db: None) -> Any:
    return world.busy()


def due() -> None:
    MetricsPush.objects.update(due_at=timezone.now() - timedelta(seconds=1))


def row() -> MetricsPush:
    return MetricsPush.objects.get()


def requests_of(bodies: Iterable[bytes]) -> list[Any]:
    return [service.ExportMetricsServiceRequest.FromString(body) for body in bodies]


def metrics_of(requests: Iterable[Any]) -> Iterator[Any]:
    for request in requests:
        [of_resource] = request.resource_metrics
        [of_scope] = of_resource.scope_metrics
        yield from of_scope.metrics


def points_of(requests: Iterable[Any]) -> Points:
    found: Points = {}
    for metric in metrics_of(requests):
        for point in getattr(metric, metric.WhichOneof("data")).data_points:
            labels = {each.key: each.value.string_value for each in point.attributes}
            key = (metric.name, tuple(sorted(labels.items())))
            assert key not in found, key
            found[key] = point.as_double
    return found


def parsed(text: bytes) -> Points:
    """As Prometheus reads it."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_a_collector_gets_what_a_scrape_gives(
    flow: Any, environ: dict[str, str], receiver: Receiver
) -> None:
    now = timezone.now()
    settings = push.otlp.read_settings(environ, version="1.2")
    pushed = push.push(settings, now=now, until=time.monotonic() + 20)
    assert pushed.error == ""
    requests = requests_of(body for _, body in receiver.got)
    scraped = parsed(metrics.scrape(now=now, partitions=False))
    assert points_of(requests) == scraped
    assert pushed.points == len(scraped) > 40
    assert set(receiver.paths) == {"/v1/metrics"}
    headers, _ = receiver.got[0]
    assert headers["Content-Type"] == "application/x-protobuf"
    resource = requests[0].resource_metrics[0].resource.attributes
    assert {each.key: each.value.string_value for each in resource} == {
        "service.name": "understudy",
        "service.version": "1.2",
    }
    found = {metric.name: metric for metric in metrics_of(requests)}
    total = found["understudy_flow_records_total"].sum
    assert total.is_monotonic
    assert total.aggregation_temporality == metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    assert found["understudy_flow_records_total"].description == "Records replicated"
    gauge = found["understudy_flow_offset_lag_records"]
    assert gauge.WhichOneof("data") == "gauge"
    assert gauge.gauge.data_points[0].time_unix_nano == int(now.timestamp() * 1e9)


def test_many_values_are_several_requests_that_have_each_once(flow: Any) -> None:
    now = timezone.now()
    found = list(messages.requests(metrics.all_series(now), resource={}, at_ns=1, most=3))
    assert all(one.points == 3 for one in found[:-1])
    assert len(found) > 10
    one = list(messages.requests(metrics.all_series(now), resource={}, at_ns=1, most=10**6))
    assert points_of(requests_of(each.body for each in found)) == points_of(
        requests_of(each.body for each in one)
    )


@given(st.dictionaries(st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True), st.text(max_size=30)))
def test_labels_are_read_as_they_were_written(labels: dict[str, str]) -> None:
    series = Series("name_total", "Help", "counter")
    series.add(labelled(**labels), 1.5)
    assert list(series.samples()) == [(labels, 1.5)]
    if not any("\r" in text or "\n" in text for text in labels.values()):
        [(_, read)] = parsed(b"".join(encoded([series])))
        assert dict(read) == labels


def test_a_push_is_made_once_an_interval_whoever_asks(
    flow: Any, environ: dict[str, str], receiver: Receiver
) -> None:
    assert 1 <= push.take_turn(environ) <= 5
    assert 1 <= push.take_turn(environ) <= 5
    assert len(receiver.got) == 1
    first = row()
    assert (first.error, first.state_at(timezone.now())) == ("", ("running", ""))
    assert first.succeeded_at is not None
    assert first.points == sum(
        one.points
        for one in messages.requests(metrics.all_series(timezone.now()), resource={}, at_ns=1)
    )
    due()
    push.take_turn(environ)
    assert len(receiver.got) == 2
    # After a longer interval, or a clock that was set back.
    MetricsPush.objects.update(due_at=timezone.now() + timedelta(days=1))
    push.take_turn(environ)
    assert len(receiver.got) == 3


def test_headers_and_compression_are_those_of_the_variables(
    environ: dict[str, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_OTLP", SECRET)
    environ |= {
        "OTEL_EXPORTER_OTLP_HEADERS": "api-key=env:UNDERSTUDY_NOTIFY_OTLP,x-team=a%20b",
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
    }
    push.take_turn(environ)
    headers, body = receiver.got[0]
    assert (headers["api-key"], headers["x-team"]) == (SECRET, "a b")
    assert headers["Content-Encoding"] == "gzip"
    assert points_of(requests_of([gzip.decompress(body)]))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "It responded 401. Check OTEL_EXPORTER_OTLP_HEADERS."),
        (404, "It responded 404. Check OTEL_EXPORTER_OTLP_ENDPOINT: /v1/metrics is added to it."),
        (307, "It responded 307."),
        (503, "It responded 503."),
    ],
)
def test_a_failed_push_says_why_and_the_next_one_is_as_usual(
    environ: dict[str, str],
    receiver: Receiver,
    caplog: pytest.LogCaptureFixture,
    status: int,
    words: str,
) -> None:
    receiver.answers = [(status, {"Location": receiver.url})] * 2
    push.take_turn(environ)
    assert len(receiver.got) == 1, "a redirect is not followed"
    failed = row()
    assert (failed.error, failed.succeeded_at, failed.points) == (words, None, 0)
    assert failed.state_at(timezone.now()) == ("failed", words)
    due()
    push.take_turn(environ)
    told = [one.getMessage() for one in caplog.records if "were not pushed" in one.getMessage()]
    assert told == [f"metrics were not pushed: {words}"], "once, not at each push"
    due()
    push.take_turn(environ)
    assert row().error == ""
    assert row().succeeded_at is not None


def test_a_receiver_says_how_long_to_wait(environ: dict[str, str], receiver: Receiver) -> None:
    receiver.answers = [(429, {"Retry-After": "120"})]
    push.take_turn(environ)
    assert row().due_at > timezone.now() + timedelta(seconds=110)
    assert push.take_turn(environ) == 5
    assert len(receiver.got) == 1
    assert row().state_at(timezone.now() + timedelta(seconds=100))[0] == "failed"


def test_values_that_the_receiver_rejects_are_no_success(
    environ: dict[str, str], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    answer = service.ExportMetricsServiceResponse()
    answer.partial_success.rejected_data_points = 2
    answer.partial_success.error_message = "the quota\nis used up"
    receiver.body = answer.SerializeToString()
    push.take_turn(environ)
    total = row().points + 2
    assert row().error == (
        f"The receiver rejected 2 values of {total:,}. Its reason is in the log of the worker."
    )
    assert row().succeeded_at is None
    assert "the quota is used up" in caplog.text
    receiver.body = b'{"partialSuccess":{}}'
    due()
    push.take_turn(environ)
    assert row().error == ""


def test_a_push_that_takes_too_long_ends_and_says_how_much_arrived(
    flow: Any, environ: dict[str, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages.requests, "__kwdefaults__", {"most": 10})
    settings = push.otlp.read_settings(environ, version="")
    real, sent = push.post, []

    def counted(*given: Any, **more: Any) -> Any:
        sent.append(more["deadline_s"])
        return real(*given, **more)

    monkeypatch.setattr(push, "post", counted)
    # Each request takes three seconds.
    clock = SimpleNamespace(monotonic=lambda: 3.0 * len(sent))
    monkeypatch.setattr(push, "time", clock)
    pushed = push.push(settings, now=timezone.now(), until=8.0)
    assert (sent, pushed.points) == ([8.0, 5.0, 2.0], 30)
    total = len(points_of(requests_of(body for _, body in receiver.got)))
    assert total == 30
    assert pushed.error.startswith("Not all values were sent in time. Of ")
    assert pushed.error.endswith(" values it accepted 30.")


def test_a_receiver_that_is_silent_or_slow_is_left_at_the_deadline(
    environ: dict[str, str], receiver: Receiver
) -> None:
    def drip(connection: socket.socket) -> None:
        with connection:
            connection.recv(1 << 20)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                for _ in range(100):
                    connection.sendall(b"x")
                    time.sleep(0.1)
            except OSError:
                pass

    for behave, answered in ((lambda connection: time.sleep(5), False), (drip, True)):
        with socket.create_server(("127.0.0.1", 0)) as server:
            address = f"http://127.0.0.1:{server.getsockname()[1]}"

            def serve(server: socket.socket = server, behave: Any = behave) -> None:
                behave(server.accept()[0])

            threading.Thread(target=serve, daemon=True).start()
            began = time.monotonic()
            outcome = outbound_http.post(address, b"x", {}, deadline_s=0.5, answer_bytes=5000)
            assert outcome.ok == answered
            assert answered or outcome.words == "It did not respond in time."
            assert time.monotonic() - began < 4


def test_addresses_that_webhooks_may_not_call_are_refused(
    environ: dict[str, str], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UNDERSTUDY_NOTIFY_ALLOW")
    push.take_turn(environ)
    assert "The address is local or private." in row().error
    assert "UNDERSTUDY_NOTIFY_ALLOW" in row().error
    monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "*")
    for address in ("169.254.169.254", "[fd00:ec2::254]"):
        due()
        push.take_turn({**environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{address}"})
        assert "metadata service, so it is never called" in row().error
    assert receiver.got == []


def test_no_secret_of_a_header_is_shown_or_logged(
    environ: dict[str, str], receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    environ["OTEL_EXPORTER_OTLP_HEADERS"] = f"api-key={SECRET}"
    # A receiver that repeats what it got.
    receiver.body = f"unknown key {SECRET}".encode()
    receiver.answers = [(401, {})]
    push.take_turn(environ)
    assert row().error
    assert SECRET not in row().error
    assert "unknown key" in caplog.text
    assert SECRET not in redact(caplog.text)
    for wrong in (f"x {SECRET}=1", f"host={SECRET}", f"api-key={SECRET}%0A", "a=env:KAFKA_P"):
        due()
        push.take_turn({**environ, "OTEL_EXPORTER_OTLP_HEADERS": wrong})
        assert row().error.startswith("OTEL_EXPORTER_OTLP_HEADERS: "), row().error
        assert f"={SECRET}" not in row().error
    assert len(receiver.got) == 1


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "metrics are pushed as http/protobuf only"),
        ({"OTEL_EXPORTER_OTLP_CERTIFICATE": "/no/such.pem"}, "'/no/such.pem', which cannot be"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=env:UNDERSTUDY_NOTIFY_NONE"}, "UNDERSTUDY_NOTIFY_NONE"),
    ],
)
def test_what_is_set_wrongly_is_shown_as_the_reason(
    environ: dict[str, str], receiver: Receiver, more: dict[str, str], words: str
) -> None:
    assert push.is_wanted({**environ, **more})
    push.take_turn({**environ, **more})
    assert words in row().error
    assert receiver.got == []


def test_without_the_package_the_reason_says_what_to_install(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(push.importlib, "import_module", missing)
    push.take_turn(environ)
    assert "Install understudy[otel]" in row().error


def test_a_collector_with_a_certificate_of_its_own_authority_is_trusted_when_named(
    environ: dict[str, str], receiver: Receiver, tmp_path: Path
) -> None:
    authority = Authority("collectors")
    issued = authority.issue("collector", ["localhost"])
    (tmp_path / "ca.pem").write_text(authority.pem)
    both = issued.keystore(tmp_path / "server.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    context.load_verify_locations(tmp_path / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with ThreadingHTTPServer(("127.0.0.1", 0), receiver.handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"https://localhost:{server.server_port}"
        push.take_turn(environ)
        assert row().error == "Its certificate is not trusted, or is for another host."
        client = authority.issue("understudy")
        (tmp_path / "key.pem").write_text(client.key)
        (tmp_path / "cert.pem").write_text(client.certificate)
        environ["OTEL_EXPORTER_OTLP_CERTIFICATE"] = str(tmp_path / "ca.pem")
        environ["OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"] = str(tmp_path / "cert.pem")
        environ["OTEL_EXPORTER_OTLP_CLIENT_KEY"] = str(tmp_path / "key.pem")
        due()
        push.take_turn(environ)
        server.shutdown()
    assert row().error == ""
    assert len(receiver.got) == 1


def test_the_overview_shows_when_a_push_last_succeeded_and_why_not(
    environ: dict[str, str], receiver: Receiver, admin_client: Client
) -> None:
    def component() -> dict[str, Any] | None:
        shown = json.loads(admin_client.get("/?as=json&of=whose").getvalue())
        rows = shown if isinstance(shown, list) else shown["rows"]
        return next((one for one in rows if one["what"] == "metrics"), None)

    assert component() is None
    push.take_turn(environ)
    found = component()
    assert found is not None
    assert (found["name"], found["state"], found["reason"]) == ("OpenTelemetry", "running", "")
    receiver.answers = [(503, {})]
    due()
    push.take_turn(environ)
    assert component()["reason"] == "It responded 503."
    assert "It responded 503." in admin_client.get("/").content.decode()
    long_ago = timezone.now() - timedelta(minutes=10)
    MetricsPush.objects.update(due_at=long_ago, tried_at=long_ago)
    assert component()["state"] == "missing"
    push.forget()
    assert component() is None


class _Worker:
    def __init__(self, *queues: str) -> None:
        class Named:
            def __init__(self, name: str) -> None:
                self.name = name

        self.task_consumer = self
        self.queues = [Named(queue) for queue in queues]


def test_the_worker_watch_pushes_if_it_is_wanted(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    began = []
    monkeypatch.setattr(metrics_push.connections, "close_all", lambda: None)
    monkeypatch.setattr(metrics_push.MetricsPushes, "start", lambda self: began.append(self))
    push.take_turn(environ)
    metrics_push.begin(_Worker("default", "collect"))
    assert (began, MetricsPush.objects.count()) == ([], 1)
    monkeypatch.setattr(push, "is_wanted", lambda: True)
    metrics_push.begin(_Worker("watch"))
    assert len(began) == 1
    monkeypatch.setattr(push, "is_wanted", lambda: False)
    metrics_push.begin(_Worker("watch"))
    assert (len(began), MetricsPush.objects.count()) == (1, 0)


def test_no_failure_ends_the_thread(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, db: None
) -> None:
    monkeypatch.setattr(metrics_push.connections, "close_all", lambda: None)
    for error in (DatabaseError("gone"), RuntimeError("unexpected")):

        def fail(error: Exception = error) -> float:
            raise error

        monkeypatch.setattr(push, "take_turn", fail)
        assert metrics_push.MetricsPushes().turn() == 30
        assert "metrics were not pushed" in caplog.text
        caplog.clear()
