"""User code in rules over REST: only an admin saves or tries it, and its SHA-256 is in the rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from mirrors.domain.transforms.modules import FUNCTIONS_DIR, digest_of
from mirrors.models import Flow

SOURCE = b"""
@arrow_udf(BinaryType())
def number(values):
    return values
"""
DIGEST = digest_of(SOURCE)
RULE = {"topics": "orders.*", "value": "masks.number(value)"}
SAVED = {**RULE, "modules": {"masks": DIGEST}}


def body(*rules: dict[str, Any], **properties: str) -> dict[str, Any]:
    return {"properties": {"transforms": json.dumps(rules), **properties}}


def saved() -> Any:
    return json.loads(Flow.objects.get().properties.get("transforms", "[]"))


def said(answer: Any) -> str:
    return str(answer.json()["error"]["fields"]["transforms"][0])


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "masks.py").write_bytes(SOURCE)
    monkeypatch.setenv(FUNCTIONS_DIR, str(tmp_path))
    return tmp_path


@pytest.fixture
def url(flow: dict[str, Any]) -> str:
    return f"/api/v1/flows/{flow['id']}/"


def test_an_admin_saves_user_code_with_its_digest(
    admin: APIClient, url: str, directory: Path
) -> None:
    assert admin.patch(url, body(RULE)).status_code == 200
    assert saved() == [SAVED]
    assert admin.get(url).json()["transforms"][0]["modules"] == {"masks": DIGEST}
    entries = admin.get("/api/v1/audit/").json()["results"]
    assert any(f"User code: masks.py (SHA-256 {DIGEST})" in row["why"] for row in entries)
    history = admin.get(f"{url}history/").json()["results"][0]
    assert DIGEST in history["after"]


@pytest.mark.parametrize("rule", [RULE, SAVED])
def test_nobody_else_saves_or_tries_it(
    operator: APIClient, admin: APIClient, url: str, directory: Path, rule: dict[str, Any]
) -> None:
    text = json.dumps([rule])
    answers = [
        operator.patch(url, body(rule)),
        operator.post(f"{url}preview/", body(rule)),
        operator.post(f"{url}rules/preview/", {"topic": "orders", "transforms": text}),
    ]
    for answer in answers:
        assert answer.status_code == 403, answer.json()
        sentence = answer.json()["error"]["message"]
        assert f"masks.py (SHA-256 {DIGEST})" in sentence
        assert "This needs the role admin" in sentence
    assert saved() == []


def test_nor_by_a_new_flow_a_file_or_an_import(
    operator: APIClient, admin: APIClient, url: str, directory: Path
) -> None:
    assert admin.patch(url, body(RULE)).status_code == 200
    (file,) = admin.get("/api/v1/apply/").json()["files"]
    assert DIGEST in file["text"]
    exported = admin.post("/api/v1/exports/", {"kind": "mm2-properties"}).json()["text"]
    assert DIGEST in exported
    Flow.objects.all().delete()
    new = {"source": "primary", "target": "backup", **body(SAVED)}
    assert operator.post("/api/v1/flows/", new).status_code == 403
    plan = operator.post("/api/v1/apply/", {"files": [file]})
    digest = plan.json().get("digest", "")
    applied = operator.post("/api/v1/apply/", {"files": [file], "digest": digest})
    assert applied.status_code == 403 or applied.json()["problems"], applied.json()
    assert not Flow.objects.exists()
    plan = admin.post("/api/v1/apply/", {"files": [file]}).json()
    done = admin.post("/api/v1/apply/", {"files": [file], "digest": plan["digest"]}).json()
    assert done["applied"], done
    assert saved() == [SAVED]


def test_an_operator_changes_other_settings_and_removes_the_rule(
    operator: APIClient, admin: APIClient, url: str, directory: Path
) -> None:
    assert admin.patch(url, body(RULE)).status_code == 200
    # Also while the file is another one: the rule stays as it is.
    (directory / "masks.py").write_text("")
    assert operator.patch(url, body(SAVED, **{"tasks.max": "3"})).status_code == 200
    assert operator.patch(url, body({**SAVED, "topics": ".*"})).status_code in (400, 403)
    assert saved() == [SAVED]
    assert operator.patch(url, body({"topics": "a"})).status_code == 200
    assert saved() == [{"topics": "a"}]


def test_another_file_is_refused_with_both_digests(
    admin: APIClient, url: str, directory: Path
) -> None:
    other = SOURCE + b"# changed"
    (directory / "masks.py").write_bytes(other)
    sentence = said(admin.patch(url, body(SAVED)))
    assert digest_of(other) in sentence
    assert DIGEST in sentence


@pytest.mark.parametrize(
    ("source", "rule", "clause"),
    [
        (SOURCE, {**RULE, "value": "masks.other(value)"}, "calls masks.other, which masks.py does"),
        (SOURCE, {**RULE, "value": "masks.number(value, 1)"}, "masks.number 2 arguments; it tak"),
        (SOURCE, {**RULE, "value": "absent.number(value)"}, "There is no file "),
        (b"def f(:", RULE, "masks.py is not Python"),
        (b"#" * (1 << 20) + b"#", RULE, "is larger than 1 MiB"),
    ],
)
def test_a_file_that_does_not_fit_the_rule_is_refused(
    admin: APIClient, url: str, directory: Path, source: bytes, rule: dict[str, Any], clause: str
) -> None:
    (directory / "masks.py").write_bytes(source)
    assert clause in said(admin.patch(url, body(rule)))


def test_a_link_out_of_the_directory_and_a_file_for_all_are_refused(
    admin: APIClient, url: str, directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = directory / "masks.py"
    path.chmod(0o666)
    assert "Anybody on " in said(admin.patch(url, body(RULE)))
    path.unlink()
    outside = tmp_path_factory.mktemp("outside") / "masks.py"
    outside.write_bytes(SOURCE)
    path.symlink_to(outside)
    assert "There is no file " in said(admin.patch(url, body(RULE)))


def test_without_the_setting_user_code_is_refused(
    admin: APIClient, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(FUNCTIONS_DIR, raising=False)
    for rule in (RULE, SAVED):
        assert f"{FUNCTIONS_DIR} is not set on " in said(admin.patch(url, body(rule)))
    monkeypatch.setenv(FUNCTIONS_DIR, "relative")
    assert "is no directory on " in said(admin.patch(url, body(RULE)))
