"""Pages of drills: schedule, run, history, readiness, certificates; anybody may verify one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from django.core.cache import cache
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from mirrors.domain.drills.objectives import Objectives
from mirrors.models import Certificate, Drill, DrillRun, Flow
from mirrors.services.drills import schedules
from mirrors.services.drills.certificates.pdf import draw_pdf
from mirrors.services.drills.objectives import set_objectives
from mirrors.services.retention import drop_old_rows
from tests.drill_runs import drilled
from tests.pages import world
from tests.pages.conftest import As


@pytest.fixture
def flow(db: None, signing_key: Path) -> Flow:
    cache.clear()
    return world.busy()


def test_a_drill_is_scheduled_edited_and_taken_away_by_forms(signed_in: As, flow: Flow) -> None:
    browser = signed_in("operator")
    form = {
        "flow": flow.pk,
        "schedule": "0 3 * * 1",
        "time_zone": "Europe/Berlin",
        "groups": "billing\n\n orders ",
        "enabled": "on",
    }
    assert browser.post("/add/drill/", form).url == "/drills/schedules/"
    drill = Drill.objects.get()
    assert (drill.groups, drill.enabled, drill.changed_by) == (
        ["billing", "orders"],
        True,
        "the-operator",
    )
    page = browser.get("/drills/schedules/").content.decode()
    assert "0 3 * * 1" in page
    assert "Europe/Berlin" in page
    form["schedule"], form["time_zone"] = "0 25 * * *", "Mars"
    wrong = browser.post(f"/drills/{drill.pk}/edit/", form)
    assert wrong.status_code == 422
    assert "five cron fields" in world.error_at(wrong.content.decode(), "schedule")
    assert "time zone" in world.error_at(wrong.content.decode(), "time_zone")
    form["schedule"], form["time_zone"] = "0 4 * * *", "UTC"
    assert browser.post(f"/drills/{drill.pk}/edit/", form).status_code == 302
    assert Drill.objects.get().schedule == "0 4 * * *"
    assert browser.post(f"/drills/{drill.pk}/delete/").status_code == 302
    assert not Drill.objects.exists()


def test_one_click_runs_a_drill_and_a_second_leads_to_the_same(signed_in: As, flow: Flow) -> None:
    browser = signed_in("operator")
    tab = browser.get(f"/flows/{flow.pk}/readiness/").content.decode()
    assert f'action="/flows/{flow.pk}/drill/"' in tab
    answer = browser.post(f"/flows/{flow.pk}/drill/")
    run = DrillRun.objects.get()
    assert answer.url == f"/drills/runs/{run.pk}/"
    assert "data-every" in browser.get(answer.url).content.decode()
    assert browser.post(f"/flows/{flow.pk}/drill/").url == answer.url
    assert DrillRun.objects.count() == 1


def test_a_drill_that_has_not_measured_yet_is_shown_without_figures(
    viewer: Client, flow: Flow
) -> None:
    schedules.request_drill(flow=flow, who="ann")
    for path in (f"/flows/{flow.pk}/readiness/", "/drills/"):
        answer = viewer.get(path)
        assert answer.status_code == 200
        assert "not measured" in answer.content.decode(), path


def test_a_viewer_reads_all_and_changes_nothing(signed_in: As, flow: Flow) -> None:
    run = drilled(flow)
    browser = signed_in("viewer")
    for path in ("/drills/", "/drills/schedules/", f"/drills/runs/{run.pk}/"):
        assert browser.get(path).status_code == 200, path
    assert browser.get(f"/certificates/{run.certificate.number}/").status_code == 200
    for path in (f"/flows/{flow.pk}/drill/", f"/flows/{flow.pk}/objectives/", "/add/drill/"):
        assert browser.post(path).status_code == 403, path


def test_the_history_says_what_was_missed_by_how_much(viewer: Client, flow: Flow) -> None:
    world.topic(flow, "late", offset_lag=9, time_lag_ms=90_000)
    set_objectives(flow=flow, wanted=Objectives(rpo_seconds=60, rto_seconds=1), who="eve")
    run = drilled(flow, loss=9)
    row = viewer.get("/drills/").content.decode()
    assert "missed" in row
    assert run.certificate.number[:8] in row
    page = viewer.get(f"/drills/runs/{run.pk}/").content.decode()
    assert "The RPO was missed by 30 s" in page
    assert "Open the certificate" in page
    (facts,) = json.loads(b"".join(viewer.get("/drills/?as=json")))  # type: ignore[arg-type]
    assert (facts["measured.rpo_ms"], facts["measured.loss"]) == (90_000, 9)
    assert facts["certificate.number"] == run.certificate.number


def test_objectives_are_set_by_a_form(signed_in: As, flow: Flow) -> None:
    browser = signed_in("operator")
    path = f"/flows/{flow.pk}/objectives/"
    form = {"rpo_seconds": "30", "rpo_records": "", "rto_seconds": "60"}
    assert browser.post(path, form).url == f"/flows/{flow.pk}/readiness/"
    assert flow.objectives.spec == Objectives(rpo_seconds=30, rto_seconds=60)
    assert browser.post(path, {**form, "rto_seconds": "0"}).status_code == 422
    assert 'value="30"' in browser.get(path).content.decode()


def test_every_flow_says_when_it_was_last_proven_and_what_is_lost_of_its_score(
    viewer: Client, flow: Flow
) -> None:
    never = viewer.get("/").content.decode()
    assert "No drill has ended yet" in never
    drilled(flow)
    for path in ("/", "/flows/", f"/flows/{flow.pk}/", "/runners/default/", "/clusters/backup/"):
        assert "The last drill verified the offsets" in viewer.get(path).content.decode(), path
    tab = viewer.get(f"/flows/{flow.pk}/readiness/").content.decode()
    assert re.search(r"Ready: \d+ of 100", tab)
    assert f'href="/flows/{flow.pk}/objectives/">Set objectives' in tab
    assert "did not respond at the last check" in tab
    drilled(flow, differs=1)
    assert "The last drill, " in viewer.get("/flows/").content.decode()
    text = b"".join(viewer.get("/flows/?as=json"))  # type: ignore[arg-type]
    assert json.loads(text)[0]["proof.at"]


def test_the_certificate_is_read_printed_and_downloaded(viewer: Client, flow: Flow) -> None:
    run = drilled(flow)
    known = run.certificate
    page = viewer.get(f"/certificates/{known.number}/").content.decode()
    for words in (
        "The signature matches",
        "Objectives",
        "ann",
        known.number,
        "offsets verified, no objectives set",
    ):
        assert words in page
    got = viewer.get(f"/certificates/{known.number}/json")
    assert got.content.decode() == known.text
    assert "attachment" in got["Content-Disposition"]
    pdf = viewer.get(f"/certificates/{known.number}/pdf")
    assert pdf.content.startswith(b"%PDF-")
    assert pdf.content == viewer.get(f"/certificates/{known.number}/pdf").content
    assert viewer.get(f"/certificates/{known.number}/evidence").status_code == 200
    drop_old_rows(now=run.ended_at.replace(year=run.ended_at.year + 1))
    assert viewer.get(f"/certificates/{known.number}/evidence").status_code == 404
    assert "have expired" in viewer.get(f"/failovers/{run.run_id}/").content.decode()
    assert viewer.get("/certificates/" + "0" * 32 + "/json").status_code == 404


def test_a_pdf_takes_any_name_and_any_length(flow: Flow) -> None:
    document = json.loads(drilled(flow).certificate.text)
    document["scope"]["groups"] = ["<b>&" + "x" * 500, "数据", "a\u202eb", *["long" * 100] * 39]
    document["scope"]["group_count"] = 4_000
    document["sentence"] = "word " * 4_000
    document["steps"][0]["reason"] = "y" * 6_000
    assert draw_pdf(document=document, address="https://x/").startswith(b"%PDF-")


def test_anybody_verifies_a_certificate_pasted_uploaded_or_by_number(
    client: Client, flow: Flow
) -> None:
    known = drilled(flow).certificate
    assert client.get("/verify/").status_code == 200
    file = SimpleUploadedFile("certificate.json", known.text.encode())
    genuine = [
        client.post("/verify/", {"text": f"\r\n{known.text} \n"}),
        client.post("/verify/", {"file": file, "text": "x"}),
        client.get(f"/verify/{known.number}/"),
        client.get(f"/verify/?number={known.number}"),
    ]
    for answer in genuine:
        assert answer.status_code == 200
        assert "Genuine." in answer.content.decode()
        assert known.flow_name.replace("->", "→") in answer.content.decode()
    changed = client.post("/verify/", {"text": known.text.replace('"verified"', '"Verified"', 1)})
    text = changed.content.decode()
    assert "Not genuine." in text
    assert "changed after it was signed" in text
    # Nothing that is not signed is shown as if it were.
    assert "Evidence and signature" not in text
    for strange in ("0" * 32, "%00", "%F0%9F%98%80", "x" * 2_000):
        assert client.get(f"/verify/{strange}/").status_code == 404
        assert client.get(f"/verify/?number=a{strange}").status_code == 404
    assert client.post("/verify/", {}).status_code == 422
    assert Certificate.objects.count() == 1


def test_verification_is_bounded_by_address_and_size(
    client: Client, flow: Flow, settings: Settings
) -> None:
    settings.UNDERSTUDY_VERIFICATIONS_PER_MINUTE = 3
    huge = client.post("/verify/", "x" * 4_000_000, content_type="text/plain")
    assert huge.status_code == 413
    codes = [client.post("/verify/", {"text": "{}"}).status_code for _ in range(8)]
    # At the turn of a minute the count begins again.
    assert codes.count(200) in range(2, 7)
    assert 429 in codes
    other = Client(REMOTE_ADDR="192.0.2.7")
    assert other.post("/verify/", {"text": "{}"}).status_code == 200


def test_no_name_in_a_certificate_becomes_markup(viewer: Client, flow: Flow) -> None:
    run = drilled(flow, state="failed")
    DrillRun.objects.filter(pk=run.pk).update(reason="<script>alert(1)</script>")
    assert "<script>alert" not in viewer.get("/drills/").content.decode()
