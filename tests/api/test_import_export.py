"""Imports over REST: a preview that changes nothing, then exactly the preview or nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from rest_framework.test import APIClient

from mirrors.models import Cluster, Flow

FILE = """\
# two clusters
clusters = primary, backup
primary.bootstrap.servers = 127.0.0.1:9
backup.bootstrap.servers = 127.0.0.1:10
primary->backup.enabled = true
primary->backup.topics = orders.*
"""
ENV = (
    "config.providers=env,dir,file\n"
    "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
    "config.providers.dir.class=org.apache.kafka.common.config.provider.DirectoryConfigProvider\n"
)
LOGIN = (
    "backup.security.protocol=SASL_PLAINTEXT\nbackup.sasl.mechanism=PLAIN\n"
    "backup.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="mm" password="{}";\n'
)


def body(text: str, **more: str) -> dict[str, str]:
    return {"kind": "mm2-properties", "text": text, **more}


def counts() -> tuple[int, int]:
    return Cluster.objects.count(), Flow.objects.count()


def test_a_file_is_previewed_and_then_created_stopped(admin: APIClient) -> None:
    answer = admin.post("/api/v1/imports/", body(FILE))
    assert answer.status_code == 200, answer.json()
    seen = answer.json()
    assert seen["applicable"]
    assert {"number": 6, "key": "primary->backup.topics", "verdict": "used"}.items() <= next(
        line.items() for line in seen["lines"] if line["number"] == 6
    )
    assert counts() == (0, 0)
    made = admin.post("/api/v1/imports/", body(FILE, digest=seen["digest"]))
    assert made.status_code == 201, made.json()
    assert made.json()["created"]["clusters"] == ["primary", "backup"]
    flow = Flow.objects.get(pk=made.json()["created"]["flows"][0])
    assert (flow.name, flow.desired_state) == ("primary->backup", "stopped")
    assert flow.properties["topics"] == "orders.*"
    assert flow.properties["refresh.topics.interval.seconds"] == "600"


def test_lines_that_mm2_ignores_can_be_left_out(admin: APIClient) -> None:
    text = FILE + "primary->backup.topcs=a\n"
    seen = admin.post("/api/v1/imports/", body(text)).json()
    assert [line["key"] for line in seen["lines"] if line["ignored"]] == ["primary->backup.topcs"]
    assert not seen["applicable"]
    chosen = {**body(text), "leave_out_ignored": True}
    seen = admin.post("/api/v1/imports/", chosen).json()
    assert seen["applicable"]
    left = next(line for line in seen["lines"] if line["number"] == 7)
    assert (left["verdict"], left["ignored"]) == ("different", False)
    assert "Left out" in left["reason"]
    made = admin.post("/api/v1/imports/", {**chosen, "digest": seen["digest"]})
    assert made.status_code == 201


def test_what_changed_since_the_preview_is_not_applied(admin: APIClient) -> None:
    digest = admin.post("/api/v1/imports/", body(FILE)).json()["digest"]
    answer = admin.post("/api/v1/imports/", body(FILE.replace("orders", "pay"), digest=digest))
    assert answer.status_code == 409
    assert "Preview it again" in answer.json()["error"]["message"]
    assert counts() == (0, 0)


@pytest.mark.parametrize(
    ("more", "key"),
    [
        ("xxx=1", "xxx"),
        ("primary->primary.enabled=true", "primary->primary.enabled"),
        ("backup.sasl.kerberos.x=1\nbackup.security.protocol=SASL_SSL", "backup.sasl.mechanism"),
        (LOGIN.format("hunter2") + ENV, "backup.sasl.jaas.config"),
        (LOGIN.format("${dir:/etc:passwd}") + ENV, "backup.sasl.jaas.config"),
        (LOGIN.format("${env:PATH}") + ENV, "backup.sasl.jaas.config"),
        (LOGIN.format("${file:/etc/passwd:root}") + ENV, "backup.sasl.jaas.config"),
        (
            "backup.security.protocol=SSL\nbackup.ssl.truststore.type=PEM\n"
            "backup.ssl.truststore.location=/etc/passwd",
            "backup.ssl.truststore.location",
        ),
        (
            "backup->primary.enabled=true\nreplication.policy.class="
            "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "replication.policy.class",
        ),
    ],
)
def test_one_wrong_line_makes_nothing_and_says_which(admin: APIClient, more: str, key: str) -> None:
    seen = admin.post("/api/v1/imports/", body(FILE + more)).json()
    refused = {line["key"]: line for line in seen["lines"] if line["verdict"] == "unsupported"}
    assert key in refused
    assert not seen["applicable"]
    answer = admin.post("/api/v1/imports/", body(FILE + more, digest=seen["digest"]))
    assert answer.status_code == 400
    assert key in answer.json()["error"]["fields"]
    assert counts() == (0, 0)
    assert "hunter2" not in answer.content.decode() + repr(seen)
    assert "root:" not in answer.content.decode() + repr(seen)


def test_a_cluster_that_is_here_is_used_when_it_fits_and_refused_when_not(
    admin: APIClient, two_clusters: tuple[str, str]
) -> None:
    fits = FILE.replace("127.0.0.1:10", "127.0.0.1:9")
    seen = admin.post("/api/v1/imports/", body(FILE)).json()
    refused = [line for line in seen["lines"] if line["verdict"] == "unsupported"]
    assert [line["number"] for line in refused] == [4]
    seen = admin.post("/api/v1/imports/", body(fits)).json()
    # Both aliases name one address here, which is worth a warning.
    assert "one cluster under two names" in " ".join(seen["warnings"])
    made = admin.post("/api/v1/imports/", body(fits, digest=seen["digest"])).json()
    assert made["created"]["reused"] == ["primary", "backup"]
    again = admin.post("/api/v1/imports/", body(fits)).json()
    assert again["unchanged"] == ["primary->backup"]
    none = admin.post("/api/v1/imports/", body(fits, digest=again["digest"])).json()
    assert none["created"] == {
        "clusters": [], "reused": ["primary", "backup"], "flows": []
    }  # fmt: skip
    other = fits.replace("orders.*", "pay")
    refused = admin.post("/api/v1/imports/", body(other)).json()
    assert "exists already, with another topics." in " ".join(
        line["reason"] for line in refused["lines"]
    )


def test_a_text_that_is_too_large_or_no_text_is_refused_with_a_reason(admin: APIClient) -> None:
    answer = admin.post("/api/v1/imports/", body("#" * 10_000_000))
    assert answer.status_code == 413
    answer = admin.post("/api/v1/imports/", body("#" * 600_000))
    assert "the limit is" in answer.json()["lines"][0]["reason"]
    raw = b'{"kind": "mm2-properties", "text": "\xff\xfe"}'
    answer = admin.post("/api/v1/imports/", raw, content_type="application/json")
    assert answer.status_code == 400
    answer = admin.post("/api/v1/imports/", {"kind": "nonsense", "text": "a"})
    assert "kind" in answer.json()["error"]["fields"]


def test_only_an_administrator_imports_and_everybody_exports(
    operator: APIClient, viewer: APIClient, admin: APIClient
) -> None:
    assert operator.post("/api/v1/imports/", body(FILE)).status_code == 403
    assert viewer.post("/api/v1/exports/", {}).status_code == 400
    digest = admin.post("/api/v1/imports/", body(FILE)).json()["digest"]
    assert admin.post("/api/v1/imports/", body(FILE, digest=digest)).status_code == 201
    text = viewer.post("/api/v1/exports/", {"kind": "mm2-properties"}).json()["text"]
    assert "primary->backup.topics=orders.*" in text.splitlines()
    flow = Flow.objects.get()
    assert viewer.post("/api/v1/exports/", {"flows": [flow.pk]}).json()["text"] == text


def test_the_commands_do_the_same(db: None, tmp_path: Path) -> None:
    path, out = tmp_path / "mm2.properties", StringIO()
    path.write_text(FILE)
    call_command("import_mm2", str(path), stdout=out)
    assert "primary->backup.topics" in out.getvalue()
    assert counts() == (0, 0)
    call_command("import_mm2", str(path), "--apply", stdout=out)
    assert counts() == (2, 1)
    out = StringIO()
    call_command("export_mm2", "primary->backup", stdout=out)
    assert "clusters=primary,backup" in out.getvalue()
    for raw, word in (
        (b"a=\xff", "line 1"),
        (b"x" * 600_000, "the limit is"),
        (b"xxx=1", "unsupported"),
    ):
        path.write_bytes(raw)
        with pytest.raises(CommandError, match=word):
            call_command("import_mm2", str(path), stdout=StringIO())
