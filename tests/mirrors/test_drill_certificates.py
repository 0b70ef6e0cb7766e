"""What a drill leaves: a certificate that verifies, and rows that retention deletes."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from mirrors.domain.drills.certificates.signature import canonical, fingerprint_of
from mirrors.domain.drills.certificates.tables import tables_of
from mirrors.domain.failover.runbook.plan_drift import remaining_blockers
from mirrors.models import FailoverRun, Flow, SigningKey
from mirrors.services.drills import runs, schedules
from mirrors.services.drills.certificates import issuance
from mirrors.services.drills.certificates.signing_key import load_key
from mirrors.services.retention import delete_old_runs, drop_old_rows, prune
from tests import drill_runs
from tests.domain.test_failover import picture
from tests.domain.test_failover_partitions import decision
from tests.drill_runs import drilled, simulated
from tests.pages import world


@pytest.fixture
def flow(db: None, signing_key: Path) -> Flow:
    return world.flow()


def test_the_certificate_has_scope_numbers_times_people_and_the_evidence_by_digest(
    flow: Flow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = drilled(flow)
    text = run.certificate.text
    document = json.loads(text)
    assert document["scope"]["flow"] == flow.name
    assert document["scope"]["groups"] == ["billing"]
    assert document["result"] == run.label == "offsets verified, no objectives set"
    assert document["verification"]["result"] == run.run.verification == "verified"
    blockers = remaining_blockers("switchover", run.run.plan)
    assert document["scope"]["blockers"] == len(blockers) == len(run.measured["blockers"])
    assert document["measured"]["proven"] == 1
    assert document["people"] == [{"who": "ann", "did": "requested it"}]
    assert [step["name"] for step in document["steps"]] == ["look", "read", "compare", "clean"]
    assert all(step["ended_at"] for step in document["steps"])
    evidence = issuance.evidence_of(run.run)
    assert evidence is not None
    paths = {"c": text.encode(), "e": evidence, "bad": evidence.replace(b"billing", b"Billing")}
    for name, body in paths.items():
        (tmp_path / name).write_bytes(body)
    call_command("verify_certificate", str(tmp_path / "c"), evidence=str(tmp_path / "e"))
    told = capsys.readouterr().out
    assert "Genuine." in told
    assert "The evidence matches the certificate" in told
    with pytest.raises(CommandError, match="its digest of the evidence differs"):
        call_command("verify_certificate", str(tmp_path / "c"), evidence=str(tmp_path / "bad"))
    (tmp_path / "c").write_text(text.replace('"proven":1', '"proven":2'))
    with pytest.raises(CommandError, match="changed after it was signed"):
        call_command("verify_certificate", str(tmp_path / "c"))
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("verify_certificate", str(tmp_path / "nothing"))


def test_an_auditor_verifies_with_the_public_key_alone(flow: Flow, tmp_path: Path) -> None:
    (tmp_path / "c").write_text(drilled(flow).certificate.text)
    key = SigningKey.objects.get().public_key
    SigningKey.objects.all().delete()
    with pytest.raises(CommandError, match="key that is not known here"):
        call_command("verify_certificate", str(tmp_path / "c"))
    call_command("verify_certificate", str(tmp_path / "c"), public_key=key)
    with pytest.raises(CommandError, match="64 hexadecimal"):
        call_command("verify_certificate", str(tmp_path / "c"), public_key="00")


def test_a_drill_whose_certificate_cannot_be_signed_says_so_and_gets_it_later(
    flow: Flow, settings: Settings, signing_key: Path
) -> None:
    settings.UNDERSTUDY_SIGNING_KEY = "broken"
    run = schedules.request_drill(flow=flow, who="ann")
    (begun,) = runs.begin_waiting(now=run.created_at)
    simulated(FailoverRun.objects.get(pk=begun))
    runs.judge_ended(now=run.created_at)
    assert issuance.issue_missing(now=run.created_at) == 0
    run.refresh_from_db()
    assert run.state == "no_objectives"
    assert "not an Ed25519 private key" in run.uncertified
    settings.UNDERSTUDY_SIGNING_KEY = ""
    assert issuance.issue_missing(now=run.created_at) == 1
    assert issuance.issue_missing(now=run.created_at) == 0
    run.refresh_from_db()
    assert run.uncertified == ""
    public = load_key().public_key().public_bytes_raw()
    assert json.loads(run.certificate.text)["key"]["fingerprint"] == fingerprint_of(public)


def test_old_rows_are_dropped_and_totals_digest_and_certificate_stay(
    flow: Flow, settings: Settings
) -> None:
    run = drilled(flow)
    before = issuance.evidence_of(run.run)
    ended = run.run.ended_at
    assert drop_old_rows(now=ended + timedelta(days=settings.UNDERSTUDY_EVIDENCE_DAYS)) == 0
    later = ended + timedelta(days=settings.UNDERSTUDY_EVIDENCE_DAYS, seconds=1)
    assert drop_old_rows(now=later) == 1
    assert drop_old_rows(now=later) == 0
    kept = FailoverRun.objects.get(pk=run.run_id)
    assert "partitions" not in kept.result
    assert kept.result["totals"]["proven"] == 1
    assert "places" not in kept.plan
    assert len(canonical(kept.plan)) < len(canonical(run.run.plan))
    assert issuance.evidence_of(kept) is None
    assert before is not None
    assert issuance.verify_text(text=run.certificate.text.encode()).genuine
    assert delete_old_runs(now=ended + timedelta(days=399)) == 0
    assert delete_old_runs(now=ended + timedelta(days=401)) == 1
    run.refresh_from_db()
    assert (run.run, run.state) == (None, "no_objectives")
    assert prune()["evidence"] == 0


def test_the_certificate_names_what_a_decision_left_behind(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = picture(left_behind=(decision(),))
    monkeypatch.setattr(drill_runs, "picture", lambda: left)
    document = json.loads(drilled(flow).certificate.text)
    (row,) = document["left_behind"]
    assert (row["topic"], row["records"], row["certainty"]) == ("orders", 10, "at_most")
    assert {"who": "ann", "did": "left orders behind: moved"} in document["people"]
    (sheet,) = [one for one in tables_of(document) if one.title == "Left behind by decision"]
    assert "by decision of ann (moved): at most 10 records" in sheet.rows[0][1]
