"""The audit log: the kind of who acts, entries of accounts, and the chain that shows a change."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.web.request_origin import address_of
from mirrors.domain.audit import chain as rules
from mirrors.domain.audit.actors import PROCESSES, WORKER, name_refusal
from mirrors.domain.errors import InvalidSettings
from mirrors.models import AuditAnchor, AuditHead, Role, Transition
from mirrors.models.audit.transitions import by_people, write_entry
from mirrors.services.audit import accounts, chain
from mirrors.services.users import create_token, ensure_person
from tests.api.conftest import client_of


@pytest.fixture(autouse=True)
def no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "_limiter", accounts._Limiter())


def acts(client: APIClient, **filters: str) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/audit/", filters)
    assert answer.status_code == 200, answer.json()
    return list(answer.json()["results"])


# --- who acts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted({*PROCESSES, "Worker", "REconciler", "command-line"}))
def test_nobody_gets_the_name_of_a_process(db: None, name: str) -> None:
    with pytest.raises(InvalidSettings, match="reserved"):
        ensure_person(username=name, password=None, role=Role.VIEWER)
    assert name_refusal(name)


def test_a_person_with_the_name_of_a_process_hides_nothing(admin: APIClient) -> None:
    User.objects.create_user("worker", password=None).groups.add(Group.objects.get(name="admin"))
    body = {"alias": "theirs", "bootstrap_servers": "127.0.0.1:9"}
    assert client_of("worker").post("/api/v1/clusters/", body).status_code == 201
    (found,) = acts(admin, who="worker", subject="cluster")
    assert (found["name"], found["kind"]) == ("theirs", "token")
    facts = {"subject": "flow", "subject_id": 1, "field": "state"}
    write_entry(who=WORKER, name="by a process", to_state="running", **facts)
    assert not by_people(Transition.objects.filter(name="by a process")).exists()


def test_an_entry_has_the_token_the_request_and_the_address(admin: APIClient) -> None:
    body = {"alias": "mine", "bootstrap_servers": "127.0.0.1:9"}
    sent = {"HTTP_X_REQUEST_ID": "request-0001", "REMOTE_ADDR": "192.0.2.7"}
    admin.post("/api/v1/clusters/", body, **sent)  # type: ignore[arg-type]
    (found,) = acts(admin, subject="cluster")
    assert (found["reference"], found["address"]) == ("request-0001", "192.0.2.7")
    assert found["kind"] == "token"
    assert len(found["detail"]["token"]) == 8
    person = Client(REMOTE_ADDR="192.0.2.8")
    person.force_login(User.objects.get(username="admin"))
    person.post("/clusters/mine/delete/", {"confirm": "mine", "alias": "mine"})
    assert {one["kind"] for one in acts(admin, subject="cluster")} <= {"person", "token"}


# --- accounts -------------------------------------------------------------------------------------


def test_everything_that_happens_to_an_account_is_recorded(admin: APIClient) -> None:
    person = ensure_person(username="ann", password="first-password-1", role=Role.VIEWER)
    ensure_person(username="ann", password=None, role=Role.OPERATOR)
    person.refresh_from_db()
    person.set_password("second-password-2")
    person.is_active = False
    person.save()
    key = create_token_of_inactive(person)
    person.auth_token_set.all().first().delete()
    person.delete()
    found = acts(admin, subject="user")
    steps = [one["to"] for one in found if one["name"] == "ann"][::-1]
    assert steps == [
        *("created", "password changed", "role given", "role removed", "role given", "deactivated"),
        *("password changed", "token created", "token revoked", "deleted"),
    ]
    (removed,) = (one for one in found if one["to"] == "role removed")
    assert removed["detail"] == {"before": {"roles": ["viewer"]}}
    (deactivated,) = (one for one in found if one["to"] == "deactivated")
    assert deactivated["detail"] == {"before": {"is_active": True}, "after": {"is_active": False}}
    text = json.dumps(found)
    assert "password-1" not in text
    assert "password-2" not in text
    assert key not in text
    assert {one["who"] for one in found if one["name"] == "ann"} == {"command line"}


def create_token_of_inactive(person: User) -> str:
    User.objects.filter(pk=person.pk).update(is_active=True)
    return create_token(username=person.username)


def test_sign_ins_and_failed_ones_are_recorded_with_their_address(admin: APIClient) -> None:
    ensure_person(username="ann", password="first-password-1", role=Role.VIEWER)
    client = Client(REMOTE_ADDR="192.0.2.9")
    for name, password in (("ann", "wrong"), ("hunter2-typed-here", "x")):
        client.post("/login/", {"username": name, "password": password})
    client.post("/login/", {"username": "ann", "password": "first-password-1"})
    client.post("/logout/")
    found = [one for one in acts(admin, subject="user") if one["address"] == "192.0.2.9"]
    assert [(one["to"], one["name"], one["result"]) for one in found][::-1] == [
        ("sign-in failed", "ann", "refused"),
        ("sign-in failed", "", "refused"),
        ("signed in", "ann", "done"),
        ("signed out", "ann", "done"),
    ]
    assert "hunter2" not in json.dumps(found)


def test_refused_requests_and_wrong_tokens_are_recorded_but_not_without_limit(
    admin: APIClient, viewer: APIClient
) -> None:
    viewer.post("/api/v1/clusters/", {})
    stranger = APIClient()
    stranger.credentials(HTTP_AUTHORIZATION="Token " + "0" * 64)
    for _ in range(3 * accounts.LIMIT):
        stranger.get("/api/v1/flows/")
    refused = acts(admin, result="refused")
    (one,) = (one for one in refused if one["to"] == "refused")
    assert (one["who"], one["why"], one["kind"]) == ("viewer", "POST /api/v1/clusters/", "token")
    assert len([one for one in refused if one["to"] == "token refused"]) == accounts.LIMIT


def test_only_admins_see_entries_of_accounts_and_addresses(
    admin: APIClient, operator: APIClient
) -> None:
    admin.post("/api/v1/clusters/", {"alias": "mine", "bootstrap_servers": "127.0.0.1:9"})
    found = acts(operator)
    assert found
    assert {one["address"] for one in found} == {""}
    assert "user" not in {one["subject"] for one in found}
    assert "user" in {one["subject"] for one in acts(admin)}
    page = Client()
    page.force_login(User.objects.get(username="operator"))
    lines = b"".join(page.get("/audit/?as=jsonl&by=everybody").streaming_content)  # type: ignore[attr-defined]
    rows = [json.loads(line) for line in lines.decode().splitlines()]
    assert rows
    assert {row["address"] for row in rows} == {""}
    assert "user" not in {row["subject"] for row in rows}


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "client"),
    [
        ([], "10.0.0.1", "198.51.100.1", "10.0.0.1"),
        (["10.0.0.0/8"], "10.0.0.1", "198.51.100.1", "198.51.100.1"),
        (["10.0.0.0/8"], "10.0.0.1", "203.0.113.9, 198.51.100.1", "198.51.100.1"),
        (["10.0.0.0/8"], "10.0.0.1", "198.51.100.1, 10.0.0.2", "198.51.100.1"),
        (["10.0.0.0/8"], "192.0.2.1", "198.51.100.1", "192.0.2.1"),
        (["10.0.0.0/8"], "10.0.0.1", "<script>", "10.0.0.1"),
        (["10.0.0.0/8"], "::ffff:10.0.0.1", "2001:db8::1", "2001:db8::1"),
    ],
)
def test_a_forwarded_address_is_believed_only_from_a_trusted_proxy(
    rf: Any, settings: Settings, proxies: list[str], peer: str, forwarded: str, client: str
) -> None:
    settings.UNDERSTUDY_TRUSTED_PROXIES = proxies
    request = rf.get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded)
    assert address_of(request) == client


# --- the chain ------------------------------------------------------------------------------------


@pytest.fixture
def sealed(db: None, signing_key: Path) -> None:
    for at in range(10):
        write_entry(
            who="ann",
            name=f"flow {at}",
            to_state="edited",
            subject="flow",
            subject_id=at,
            field="settings",
            detail={"after": {"a": [at, None], "b": "\u00e9"}},
        )
    assert chain.seal(most=4) == 4
    chain.anchor_if_due(now=timezone.now())
    while chain.seal(most=4):
        pass


def verified() -> str:
    out = StringIO()
    call_command("verify_audit", stdout=out)
    return out.getvalue()


def test_an_untouched_log_is_intact(sealed: None) -> None:
    assert "intact" in verified()
    assert "1 signed anchors" in verified()
    assert chain.anchor_if_due(now=timezone.now()) is None, "not within an hour"
    assert chain.anchor_if_due(now=timezone.now() + timedelta(hours=2)) is not None


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda rows: rows.filter(position=6).update(who="bob"), "Entry 6 was changed"),
        (lambda rows: rows.filter(position=6).update(kind="process"), "Entry 6 was changed"),
        (lambda rows: rows.filter(position=6).update(detail=None), "Entry 6 was changed"),
        (lambda rows: rows.filter(position=6).delete(), "Entries 6 to 6 are missing"),
        (lambda rows: rows.filter(position=1).delete(), "Entries before 2 are missing"),
        (lambda rows: rows.filter(position__gt=8).delete(), "The chain ends at"),
    ],
)
def test_every_change_of_a_sealed_entry_is_found(sealed: None, change: Any, finding: str) -> None:
    change(Transition.objects.all())
    with pytest.raises(CommandError, match=finding):
        verified()


def test_a_chain_that_was_computed_again_contradicts_its_anchor(sealed: None) -> None:
    Transition.objects.filter(position=2).update(who="bob")
    Transition.objects.update(position=None, digest="")
    AuditHead.objects.all().delete()
    while chain.seal():
        pass
    with pytest.raises(CommandError, match="contradicts the signed anchor"):
        verified()
    AuditAnchor.objects.update(digest=Transition.objects.get(position=4).digest)
    with pytest.raises(CommandError, match="signature of the anchor at 4 is not valid"):
        verified()


def test_old_entries_are_deleted_and_the_rest_remains_verifiable(
    sealed: None, settings: Settings
) -> None:
    settings.UNDERSTUDY_AUDIT_DAYS = 30
    old = timezone.now() - timedelta(days=31)
    Transition.objects.update(position=None, digest="")
    AuditHead.objects.all().delete()
    AuditAnchor.objects.all().delete()
    keys = sorted(Transition.objects.values_list("pk", flat=True))
    Transition.objects.filter(pk__in=keys[:6]).update(when=old)
    while chain.seal():
        pass
    assert chain.delete_old_entries(now=timezone.now()) == 6
    assert chain.delete_old_entries(now=timezone.now()) == 0
    assert "positions 7 to 10" in verified()


FACTS = st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text()))


@given(st.lists(FACTS, min_size=1, max_size=8), st.data())
def test_law_any_edit_removal_or_swap_is_found(rows: list[dict[str, Any]], data: Any) -> None:
    links, previous = [], rules.START
    for position, facts in enumerate(rows, start=1):
        previous = rules.digest_of(previous, position, facts)
        links.append(rules.Link(position, previous, facts))
    head = rules.Anchor(len(rows), previous, True)
    assert rules.verify(links, [head]).is_intact
    at = data.draw(st.integers(0, len(links) - 1))
    changed = {**links[at].facts, "edited": 1}
    edited = [*links]
    edited[at] = rules.Link(links[at].position, links[at].digest, changed)
    assert not rules.verify(edited, [head]).is_intact
    assert not rules.verify(links[:at] + links[at + 1 :], [head]).is_intact
