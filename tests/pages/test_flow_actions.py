"""Actions on a flow: roles, confirmations, and the reason of a refusal."""

from __future__ import annotations

from django.test import Client

from mirrors.models import Cluster, Flow, Transition
from tests.pages import world
from tests.pages.conftest import As


def test_an_operator_pauses_resumes_stops_and_starts(
    signed_in: As, pair: tuple[Cluster, Cluster]
) -> None:
    operator, flow = signed_in("operator"), world.flow(*pair)
    seen = []
    for act in ("pause", "resume", "restart", "stop", "start"):
        answer = operator.post(f"/flows/{flow.pk}/{act}/")
        assert answer["Location"] == f"/flows/{flow.pk}/", act
        flow.refresh_from_db()
        seen.append(flow.desired_state)
    assert seen == ["paused", "running", "running", "stopped", "running"]
    assert Transition.objects.filter(who="the-operator", subject="flow").count() == 5


def test_a_viewer_changes_nothing(viewer: Client, pair: tuple[Cluster, Cluster]) -> None:
    flow = world.flow(*pair)
    for path in ("pause", "stop", "delete", "edit"):
        assert viewer.post(f"/flows/{flow.pk}/{path}/", {"typed": "backup"}).status_code == 403
    assert viewer.post("/clusters/primary/test/").status_code == 403
    flow.refresh_from_db()
    assert flow.desired_state == "running"


def test_a_get_never_acts(admin: Client, pair: tuple[Cluster, Cluster]) -> None:
    flow = world.flow(*pair)
    for act in ("start", "pause", "stop", "restart", "reverse", "delete"):
        assert admin.get(f"/flows/{flow.pk}/{act}/?typed=backup").status_code == 200
    flow.refresh_from_db()
    assert (flow.desired_state, Transition.objects.filter(subject="flow").count()) == ("running", 0)


def test_a_get_of_a_verbs_address_leads_to_the_page_of_its_button(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    flow = world.flow(*pair)
    pages = {
        "/clusters/primary/test/": "/clusters/primary/",
        f"/flows/{flow.pk}/simulate/": f"/flows/{flow.pk}/",
        f"/flows/{flow.pk}/plan/apply/": f"/flows/{flow.pk}/plan/",
        "/approvals/request/": "/approvals/",
    }
    for path, page in pages.items():
        answer = admin.get(path, follow=True)
        assert answer.redirect_chain[-1] == (page, 302), path
        assert "Nothing was changed" in answer.content.decode(), path
    assert admin.delete("/clusters/primary/test/").status_code == 405
    assert admin.get(f"/api/v1/flows/{flow.pk}/start/").status_code == 405
    assert not Transition.objects.filter(subject="flow").exists()


def test_deleting_asks_for_the_targets_alias_and_for_a_stopped_flow(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    flow = world.flow(*pair)
    path = f"/flows/{flow.pk}/delete/"
    assert "The flow is not stopped" in admin.get(path).content.decode()
    assert "Type backup exactly" in admin.post(path, {"typed": "back"}).content.decode()
    running = admin.post(path, {"typed": "backup"})
    assert running.status_code == 409
    assert "is not stopped" in running.content.decode()
    Flow.objects.update(desired_state="stopped")
    assert admin.post(path, {"typed": "backup"})["Location"] == "/flows/"
    assert not Flow.objects.exists()


def test_reversing_leads_to_the_other_direction(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    flow = world.flow(*pair)
    reason = {"typed": "backup", "reason": "Exercise of the week."}
    answer = admin.post(f"/flows/{flow.pk}/reverse/", reason)
    other = Flow.objects.get(source=pair[1])
    assert answer["Location"] == f"/flows/{other.pk}/"
    assert Transition.objects.filter(why="Exercise of the week.").exists()


def test_a_refused_act_says_why_on_the_page(admin: Client, pair: tuple[Cluster, Cluster]) -> None:
    flow = world.flow(*pair)
    answer = admin.post(f"/flows/{flow.pk}/start/", follow=True)
    assert "was already started" in answer.content.decode()
    assert admin.post(f"/flows/{flow.pk}/nonsense/").status_code == 404
