"""Evidence for auditors: the figures of certificates, their gaps, and what is unknown."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from mirrors.domain.drills.objectives import Objectives
from mirrors.models import Certificate, Flow
from mirrors.services.drills.certificates import failover_issuance
from mirrors.services.drills.evidence import export_evidence
from mirrors.services.drills.objectives import set_objectives
from tests.drill_runs import drilled
from tests.mirrors.test_failover_certificates import ended
from tests.pages import world

NAMES = {
    *("certificate", "function", "scope", "nature", "scenario", "started_at", "ended_at", "rto"),
    *("rpo_time", "rpo_records", "result", "verification", "summary", "gaps", "remediation"),
    *("people", "evidence"),
}


@pytest.fixture
def flow(db: None, signing_key: Path) -> Flow:
    return world.flow()


def exported(**given: Any) -> dict[str, Any]:
    asked = {"since": None, "until": None, **given}
    return export_evidence(**asked, now=timezone.now())


def test_a_missed_objective_is_a_gap_until_a_later_drill_passes(flow: Flow) -> None:
    objectives = Objectives(rpo_records=10, rto_seconds=3600)
    set_objectives(flow=flow, wanted=objectives, who="ann")
    missed = drilled(flow, loss=50, loss_known=50)
    [entry] = exported()["entries"]
    assert set(entry) == NAMES
    assert (entry["nature"], entry["scenario"]["type"]) == ("test", "drill")
    assert entry["rpo_records"] == {
        "wanted": 10,
        "achieved": 50,
        "met": False,
        "why_unknown": "",
        "certainty": "counted",
    }
    assert "objective missed" in {gap["kind"] for gap in entry["gaps"]}
    assert entry["remediation"]["state"] == "open"
    assert entry["certificate"]["number"] == missed.certificate.number
    assert {"who": "ann", "did": "requested it"} in entry["people"]
    # What was not measured is unknown, and met by nothing.
    for name in ("rto", "rpo_time"):
        if entry[name]["achieved"] is None:
            assert entry[name]["met"] is None
            assert entry[name]["why_unknown"]
    set_objectives(flow=flow, wanted=Objectives(rpo_records=10), who="ann")
    passed = drilled(flow, now=timezone.now() + timedelta(minutes=1))
    first, second = exported()["entries"]
    assert first["remediation"]["state"] == "confirmed"
    assert first["remediation"]["confirmed_by"] == passed.certificate.number
    assert second["remediation"]["state"] == "none needed"


def test_what_a_drill_did_not_verify_is_a_gap(flow: Flow) -> None:
    """Such as topics with rules, whose copies differ from the source."""
    drilled(flow, places=2, proven=1)
    [entry] = exported()["entries"]
    [gap] = entry["gaps"]
    assert gap == {"kind": "partly verified", "text": entry["verification"]["reason"]}
    assert entry["remediation"]["state"] == "open"


def test_a_failover_is_a_recovery_whose_loss_is_said_with_its_certainty(flow: Flow) -> None:
    run = ended(flow)
    failover_issuance.issue(run=run, now=timezone.now())
    [entry] = exported()["entries"]
    assert (entry["nature"], entry["scenario"]["type"]) == ("recovery", "failover")
    assert (entry["rpo_records"]["achieved"], entry["rpo_records"]["certainty"]) == (
        *(2_485, "at_least"),
    )
    kinds = {gap["kind"] for gap in entry["gaps"]}
    assert kinds == {"data loss", "left behind by decision", "not verified"}
    assert entry["rto"]["achieved"] is None


def test_a_changed_certificate_is_refused_by_number(flow: Flow, tmp_path: Path) -> None:
    run = drilled(flow)
    call_command("export_evidence", output=str(tmp_path / "all.json"))
    assert len(json.loads((tmp_path / "all.json").read_text())["entries"]) == 1
    text = run.certificate.text.replace('"proven":1', '"proven":2')
    Certificate.objects.update(text=text)
    with pytest.raises(CommandError, match=f"left out: {run.certificate.number}"):
        call_command("export_evidence", output=str(tmp_path / "all.json"))
    document = json.loads((tmp_path / "all.json").read_text())
    assert document["entries"] == []
    assert "changed after it was signed" in document["refused"][0]["reason"]


def test_the_times_and_the_flow_choose(flow: Flow) -> None:
    drilled(flow)
    now = timezone.now()
    assert exported(since=now + timedelta(days=1))["entries"] == []
    assert exported(until=now - timedelta(days=1))["entries"] == []
    assert len(exported(flow_name=flow.name)["entries"]) == 1
    assert exported(flow_name="a->b")["entries"] == []
    out = io.StringIO()
    call_command("export_evidence", since="2020-01-01", stdout=out)
    assert len(json.loads(out.getvalue())["entries"]) == 1
    for wrong in ("soon", "2020-13-01"):
        with pytest.raises(CommandError, match="is no date"):
            call_command("export_evidence", since=wrong)
