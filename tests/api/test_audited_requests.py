"""Every request that changes something leaves an entry of its person in the audit log."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client

from controlplane.web import request_origin
from mirrors.models import Comparison, Role, Transition
from mirrors.services.comparison.lifecycle import abort_comparison
from mirrors.services.users import ensure_person
from tests.api.test_access import VALUES
from tests.api.test_object_rights import answer_to, closed
from tests.two_teams import first_team

LATER = "2999-01-01T00:00:00Z"
# By the last words of an address; the others get an empty body.
BODIES: dict[str, dict[str, Any]] = {
    "clusters/": {"alias": "third", "bootstrap_servers": "127.0.0.1:9"},
    "clusters/primary/": {"bootstrap_servers": "127.0.0.1:10"},
    "flows/1/": {"properties": {"topics": "orders.*"}},
    "flows/1/labels/": {"labels": ["team-b"]},
    "flows/1/objectives/": {"rpo_seconds": 60},
    "flows/1/price/": {"per_gb": "0.02", "currency": "EUR"},
    "runners/": {"name": "second", "master": "local[2]", "slots": 2},
    "runners/default/": {"slots": 20},
    "hooks/": {"name": "hook", "url": "https://hooks.example/"},
    "channels/": {"name": "chat", "kind": "webhook", "target": "https://hooks.example/"},
    "channels/1/": {"enabled": False},
    "alert-rules/": {"name": "gaps", "kind": "gap", "severity": "critical"},
    "alert-rules/1/": {"enabled": False},
    "silences/": {"ends_at": LATER, "reason": "A test."},
    "people/": {"username": "ann", "password": "correct-horse-battery-7"},
    "grants/": {"username": "tester", "role": "viewer", "scope": "everything"},
    "comparisons/": {"flow": 1},
    "drills/": {"flow": 1, "schedule": "0 3 * * *", "time_zone": "UTC"},
    "drills/1/": {"enabled": False},
    "drill-runs/": {"flow": 1},
    "failovers/": {"flow": 1, "kind": "simulation"},
    "topic-previews/": {"source": "primary", "target": "backup"},
    "apply/": {"files": []},
}
# At least these succeed in this world, so that the test says something about them.
SUCCEED = {
    *("post clusters/", "patch clusters/primary/", "post clusters/primary/test/"),
    *("patch flows/1/objectives/", "patch flows/1/price/", "delete flows/1/price/"),
    *("patch flows/1/", "post flows/1/labels/", "post flows/1/stop/", "post flows/1/drift/"),
    *("post runners/", "post hooks/", "post channels/", "post channels/1/test/"),
    *("patch channels/1/", "delete channels/1/", "post alert-rules/", "delete alert-rules/1/"),
    *("post alerts/1/acknowledge/", "post silences/", "delete silences/1/"),
    *("post deliveries/1/retry/", "post people/", "post people/1/unlock/", "post grants/"),
    *("post drills/", "patch drills/1/", "delete drills/1/", "post topic-previews/"),
}


@pytest.fixture
def client(db: None, signing_key: Any) -> Client:
    first_team()
    ensure_person(username="tester", password=None, role=Role.VIEWER)
    ensure_person(username="boss", password=None, role=Role.ADMIN)
    found = Client(raise_request_exception=False)
    found.force_login(User.objects.get(username="boss"))
    return found


def entries_of(client: Client, method: str, path: str, body: dict[str, Any]) -> tuple[int, int]:
    """The status, and how many entries name the person. All effects are undone."""
    with transaction.atomic():
        answer = getattr(client, method)(path, data=body, content_type="application/json")
        count = Transition.objects.filter(who="boss").count()
        transaction.set_rollback(True)
    return answer.status_code, count


def test_every_change_over_rest_has_an_entry_of_its_person(client: Client) -> None:
    values = {**VALUES, "user_id": str(User.objects.get(username="tester").pk)}
    before = Transition.objects.filter(who="boss").count()
    silent, succeeded = [], set()
    for one in closed():
        if not one.is_rest:
            continue
        path = one.at(values)
        for method in ("post", "patch", "delete"):
            short = path.removeprefix("/api/v1/")
            status, count = entries_of(client, method, path, BODIES.get(short, {}))
            if status >= 300:
                continue
            succeeded.add(f"{method} {short}")
            if count == before and not request_origin._QUESTIONS.fullmatch(path):
                silent.append(f"{method} {path}: {status}")
    assert not silent, "\n".join(silent)
    assert not SUCCEED - succeeded, sorted(succeeded)


def test_what_only_answers_writes_none(client: Client) -> None:
    path = "/api/v1/exports/"
    before = Transition.objects.count()
    assert client.post(path, {}, content_type="application/json").status_code == 200
    assert client.get("/api/v1/flows/").status_code == 200
    assert answer_to(client, "patch", "/api/v1/flows/1/")[0] in (200, 400)
    assert Transition.objects.count() == before


def test_a_request_without_an_entry_of_a_service_has_the_request_itself(client: Client) -> None:
    """A page says so too."""
    assert client.post("/account/time-zone/", {"zone": "Europe/Zurich"}).status_code == 302
    row = Transition.objects.first()
    assert row is not None
    assert (row.who, row.subject, row.name) == ("boss", "request", "POST /account/time-zone/")


def test_who_hides_alerts_is_recorded_and_who_shows_them_again(client: Client) -> None:
    body = {"flow": 1, "ends_at": LATER, "reason": "Broker 3 moves."}
    answer = client.post("/api/v1/silences/", body, content_type="application/json")
    assert answer.status_code == 201, answer.json()
    row = Transition.objects.get(subject="silence", to_state="silenced")
    assert (row.who, row.why.endswith("Broker 3 moves.")) == ("boss", True)
    client.delete(f"/api/v1/silences/{answer.json()['id']}/")
    assert Transition.objects.get(to_state="silence ended").who == "boss"


def test_who_aborts_a_running_run_is_recorded_as_a_person(client: Client) -> None:
    Comparison.objects.filter(pk=1).update(state="running", ended_at=None)
    run = Comparison.objects.get(pk=1)
    abort_comparison(run=run, who="boss", why="Too slow.")
    row = Transition.objects.get(subject="comparison", to_state="abort asked")
    assert (row.who, row.kind, row.why) == ("boss", "person", "Too slow.")
