"""The client of a schema registry: a real one, and servers that fail in each way."""

from __future__ import annotations

import base64
import json
import socket
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.processes.ports import free_port
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.schemas.registry import (
    CA,
    PASSWORD,
    TOKEN,
    URL,
    USERNAME,
    RegistrySpec,
    registry_of,
)
from mirrors.domain.schemas.snapshot import Schema, SchemaReference
from mirrors.kafka.connection_test.probe import check_registry
from mirrors.kafka.schemas.connection import RegistryRefused, RegistryUnavailable
from mirrors.kafka.schemas.registry_client import RegistryClient, UnknownSchema
from tests.domain.cases import cluster
from tests.schemas.apicurio import register
from tests.schemas.fake_registry import FakeRegistry
from tests.security.authority import Authority

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "long"}],
}
DOCUMENT = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}


def spec_of(*urls: str, **properties: str) -> RegistrySpec:
    spec = registry_of("east", {URL: ",".join(urls), **properties})
    assert spec is not None
    return spec


def client_of(*urls: str, deadline_s: float = 5.0, **properties: str) -> RegistryClient:
    return RegistryClient(spec_of(*urls, **properties), deadline_s=deadline_s)


def test_a_real_registry_gives_subjects_schemas_references_and_settings(registry: str) -> None:
    name = uuid.uuid4().hex
    base = register(registry, f"{name}-base", ORDER)
    uses = {**ORDER, "name": "Line", "fields": [{"name": "order", "type": "shop.Order"}]}
    reference = {"name": "shop.Order", "subject": f"{name}-base", "version": 1}
    line = register(registry, f"{name}-line", uses, references=[reference])
    kind = register(registry, f"{name}-json", DOCUMENT, schemaType="JSON")
    client = client_of(registry)
    assert {f"{name}-base", f"{name}-line", f"{name}-json"} <= set(client.subjects())
    assert json.loads(client.schema(base).text) == ORDER
    assert client.schema(line).references == (SchemaReference("shop.Order", f"{name}-base", 1),)
    assert client.schema(kind).kind == "JSON"
    assert client.version(f"{name}-base", 1) == client.schema(base)
    assert client.compatibility()
    # Apicurio has no modes.
    assert client.mode() == ""
    with pytest.raises(UnknownSchema, match="registry of east has no schema id 987654"):
        client.schema(987654)
    with pytest.raises(UnknownSchema, match="no version 7 of subject"):
        client.version(f"{name}-base", 7)
    report = check_registry(cluster("east", properties={URL: registry}), deadline_s=5)
    assert report is not None
    assert report.reachable
    assert "subjects, compatibility" in report.words
    assert "no modes" in report.words


def test_confluents_modes_and_levels_are_read(fake: FakeRegistry) -> None:
    # As in its documentation; Apicurio has no modes.
    fake.answers |= {
        "/config": (200, {"compatibilityLevel": "BACKWARD"}),
        "/mode": (200, {"mode": "READWRITE"}),
        "/schemas/ids/7": (200, {"schemaType": "JSON", "schema": "{}"}),
    }
    client = client_of(fake.url + "/")
    assert (client.mode(), client.compatibility()) == ("READWRITE", "BACKWARD")
    assert client.schema(7) == Schema("JSON", "{}")
    report = check_registry(cluster("east", properties={URL: fake.url}), deadline_s=5)
    assert report is not None
    assert report.words == "1 subject, compatibility BACKWARD, mode READWRITE."


def test_every_address_is_tried_and_the_one_that_responded_comes_first(fake: FakeRegistry) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    broken = FakeRegistry()
    broken.answers["/subjects"] = (503, {})
    client = client_of(dead, broken.url, fake.url)
    assert client.subjects() == ["a"]
    assert client.subjects() == ["a"]
    assert len(broken.paths) == 1
    fake.answers["/subjects"] = (500, {})
    with pytest.raises(RegistryUnavailable) as failed:
        client.subjects()
    assert "the connection was refused" in failed.value.message
    assert "it responded 503" in failed.value.message
    broken.server.shutdown()


def test_a_registry_that_never_responds_costs_the_deadline_and_not_more(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as silent:
        # It accepts connections, and nobody reads from them.
        url = f"http://127.0.0.1:{silent.server_address[1]}"
        started = time.monotonic()
        with pytest.raises(RegistryUnavailable, match="does not respond in time"):
            client_of(url, deadline_s=0.5).subjects()
        assert time.monotonic() - started < 3
        assert client_of(url, fake.url, deadline_s=3).subjects() == ["a"]


@pytest.mark.parametrize(
    ("properties", "header"),
    [
        (
            {USERNAME: "copier", PASSWORD: "env:KAFKA_REGISTRY"},
            f"Basic {base64.b64encode(b'copier:hunter2').decode()}",
        ),
        ({TOKEN: "env:KAFKA_REGISTRY"}, "Bearer hunter2"),
    ],
)
def test_credentials_are_sent_and_never_shown(
    fake: FakeRegistry,
    monkeypatch: pytest.MonkeyPatch,
    properties: dict[str, str],
    header: str,
) -> None:
    monkeypatch.setenv("KAFKA_REGISTRY", "hunter2")
    client = client_of(fake.url, **properties)
    client.subjects()
    assert fake.headers[0]["Authorization"] == header
    fake.answers["/subjects"] = (401, {"message": "hunter2"})
    with pytest.raises(RegistryRefused, match="Check the credentials") as failed:
        client.subjects()
    assert "hunter2" not in failed.value.message


def test_credentials_do_not_leave_without_tls() -> None:
    client = client_of("http://registry.example:8081", **{TOKEN: "env:KAFKA_REGISTRY"})
    with pytest.raises(UnderstudyError, match="without encryption") as failed:
        client.subjects()
    assert failed.value.code == "cleartext_login"


def test_a_certificate_must_come_from_the_ca_of_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, other = Authority("registry"), Authority("other")
    issued = authority.issue("server", hosts=["127.0.0.1"])
    fake = FakeRegistry(issued.keystore(tmp_path / "server.pem"))
    monkeypatch.setenv("KAFKA_CA", authority.pem)
    monkeypatch.setenv("KAFKA_OTHER_CA", other.pem)
    assert client_of(fake.url, **{CA: "env:KAFKA_CA"}).subjects() == ["a"]
    with pytest.raises(RegistryUnavailable, match="its certificate is not trusted"):
        client_of(fake.url, **{CA: "env:KAFKA_OTHER_CA"}).subjects()
    fake.server.shutdown()


def test_the_deployments_egress_rules_apply(
    fake: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_EGRESS_ALLOW", "127.0.0.1:1")
    with pytest.raises(RegistryUnavailable, match="may not connect to it"):
        client_of(fake.url).subjects()
    assert not fake.paths
    monkeypatch.delenv("UNDERSTUDY_EGRESS_ALLOW")
    with pytest.raises(RegistryUnavailable, match="may not connect to it"):
        client_of("http://169.254.169.254").subjects()


@pytest.mark.parametrize(
    "host",
    [
        *("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518"),
        *("[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]"),
        *("[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "168.63.129.16"),
        *("metadata.example", "both.example"),
    ],
)
def test_no_way_to_write_a_metadata_service_leads_there(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By number, by name, by an address within an address; whatever the rules allow."""
    known = {
        "metadata.example": ["169.254.169.254"],
        "both.example": ["fd00:ec2::254", "169.254.169.254"],
    }
    real = socket.getaddrinfo
    asked: list[str] = []

    def look_up(name: str, port: int, **more: Any) -> list[Any]:
        rows = [real(ip, port, **more) for ip in known.get(name, [name])]
        return [row for found in rows for row in found]

    def connect(address: tuple[Any, ...], *_: Any, **__: Any) -> None:
        asked.append(str(address[0]))
        raise OSError("a test makes no connection")

    monkeypatch.setattr("mirrors.kafka.dns.socket.getaddrinfo", look_up)
    monkeypatch.setattr("urllib3.util.connection.create_connection", connect)
    monkeypatch.setenv("UNDERSTUDY_EGRESS_ALLOW", "*,0.0.0.0/0,[::/0]")
    with pytest.raises(RegistryUnavailable, match=r"may (not )?connect|not resolve"):
        client_of(f"http://{host}/", deadline_s=2.0).subjects()
    assert asked == []


def test_a_redirect_is_not_followed(fake: FakeRegistry) -> None:
    other = FakeRegistry()
    fake.answers["/subjects"] = (302, b"")
    fake.location = f"{other.url}/subjects"
    try:
        with pytest.raises(RegistryRefused, match="responded 302"):
            client_of(fake.url).subjects()
    finally:
        other.close()
    assert other.paths == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (404, b"<html>", "Check the path of the URL"),
        (200, b"<html>", "is not one of a schema registry"),
        (200, {"subjects": []}, "is not one of a schema registry"),
        (302, b"", "responded 302"),
        (422, {"error_code": 42201, "message": "Invalid\nschema."}, "422: Invalid schema."),
    ],
)
def test_an_unusable_answer_says_what_to_do(
    fake: FakeRegistry, status: int, body: Any, words: str
) -> None:
    fake.answers["/subjects"] = (status, body)
    with pytest.raises(RegistryRefused, match=words):
        client_of(fake.url).subjects()


def test_a_name_of_a_subject_is_quoted(fake: FakeRegistry) -> None:
    with pytest.raises(UnknownSchema):
        client_of(fake.url).version(":.ctx:a/b c", 1)
    assert fake.paths == ["/subjects/%3A.ctx%3Aa%2Fb%20c/versions/1"]
