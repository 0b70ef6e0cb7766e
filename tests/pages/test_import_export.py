"""The import page: a preview of every line first, then one click that applies it."""

from __future__ import annotations

import re

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from mirrors.models import Cluster, Flow
from tests.api.test_import_export import FILE

KIND = {"kind": "mm2-properties"}


def test_a_file_is_previewed_and_made_with_a_second_click(admin: Client) -> None:
    upload = SimpleUploadedFile("mm2.properties", FILE.encode())
    answer = admin.post("/imports/", {**KIND, "text": "", "file": upload})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "primary-&gt;backup.topics" in page
    assert "orders.*" in page
    assert not Flow.objects.exists()
    seen = re.search(r'name="seen" value="(\w+)"', page)
    assert seen is not None
    again = {**KIND, "text": FILE.replace("\n", "\r\n"), "seen": seen[1], "apply": "yes"}
    assert admin.post("/imports/", again)["Location"] == "/flows/"
    assert Flow.objects.get().desired_state == "stopped"
    text = admin.get("/exports/mm2.properties").content.decode()
    assert "primary->backup.topics=orders.*" in text.splitlines()


def test_a_wrong_line_is_shown_with_its_reason_and_there_is_nothing_to_click(
    admin: Client,
) -> None:
    text = FILE + "primary->backup.topcs=<script>alert(1)</script>\n"
    answer = admin.post("/imports/", {**KIND, "text": text, "apply": "yes", "seen": "x"})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Did you mean topics?" in page
    assert 'name="apply"' not in page
    assert "<script>alert" not in page
    assert not Cluster.objects.exists()


def test_a_secret_in_clear_text_is_one_line_that_stops_the_import(admin: Client) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="u" password="p";'
    login = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={jaas}")
    text = FILE + "".join(f"backup.{line}\n" for line in login)
    page = admin.post("/imports/", {**KIND, "text": text}).content.decode()
    assert "1 line cannot be taken" in page
    assert "settings not in the text</summary>" in page


def test_a_file_that_is_no_text_is_refused_where_it_was_chosen(admin: Client) -> None:
    for raw, words in (
        (b"a\nb=\xff", "line 2 contains the byte 0xFF"),
        (b"x" * 600_000, "at most"),
    ):
        upload = SimpleUploadedFile("mm2.properties", raw)
        answer = admin.post("/imports/", {**KIND, "text": "", "file": upload})
        assert answer.status_code == 422
        assert words in answer.content.decode()
