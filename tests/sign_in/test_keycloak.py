"""Sign-in, roles, logout and the end of access, with a real Keycloak as the provider."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.demo.processes.guard import Guard
from controlplane.single_sign_on import provider
from mirrors.models import AccessGrant, OidcAccount, Role, SignInGroup, Transition, role_of
from mirrors.services.users import create_token
from tests.sign_in.keycloak import CLIENT, SECRET, Keycloak, Server
from tests.two_teams import first_team, second_team

# It takes a minute until Keycloak is there.
pytestmark = [pytest.mark.soak, pytest.mark.django_db, pytest.mark.timeout(900)]
PASSWORD = "of-the-provider-1"


@pytest.fixture(scope="module")
def keycloak(tmp_path_factory: pytest.TempPathFactory, guard: Guard) -> Iterator[Keycloak]:
    groups = ["kafka-admins", "kafka-operators", "kafka-approvers", "payments", "others"]
    if given := os.environ.get("UNDERSTUDY_TEST_KEYCLOAK"):
        found = Keycloak(given)
        found.make_realm(groups=groups)
        yield found
        return
    server = Server(tmp_path_factory.mktemp("keycloak"), dict(guard.environment))
    try:
        server.wait()
        found = Keycloak(server.root)
        found.make_realm(groups=groups)
        yield found
    finally:
        server.close()


@pytest.fixture(autouse=True)
def configured(keycloak: Keycloak, settings: Settings, db: None) -> Iterator[None]:
    settings.UNDERSTUDY_OIDC_ISSUER = keycloak.issuer
    settings.OIDC_RP_CLIENT_ID, settings.OIDC_RP_CLIENT_SECRET = CLIENT, SECRET
    settings.UNDERSTUDY_GROUP_ROLES = {
        "kafka-admins": ("admin",),
        "kafka-operators": ("operator",),
        "kafka-approvers": ("approver",),
    }
    provider.forget()
    yield
    provider.forget()


def signed_in(keycloak: Keycloak, name: str) -> Client:
    """A browser that went to the provider and came back."""
    client = Client()
    leave = client.get("/oidc/login/?next=/clusters/")
    assert leave.status_code == 302, leave.content
    assert "code_challenge_method=S256" in leave["Location"]
    back = keycloak.answer_of_browser(leave["Location"], name, PASSWORD)
    client.get(back)
    return client


def later(seconds: float = 31) -> None:
    """As if the last check were so long ago."""
    at = timezone.now() - timedelta(seconds=seconds)
    OidcAccount.objects.update(checked_at=at, asked_at=at)


def programs_of(name: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {create_token(username=name)}")
    return client


def test_groups_become_roles_and_a_role_that_is_taken_is_gone_at_the_next_check(
    keycloak: Keycloak,
) -> None:
    ann = keycloak.make_user("ann", PASSWORD, ["kafka-operators", "kafka-approvers", "others"])
    client = signed_in(keycloak, "ann")
    assert client.get("/clusters/").status_code == 200
    here = User.objects.get(username="ann")
    assert role_of(here) is Role.OPERATOR
    assert set(here.groups.values_list("name", flat=True)) == {"operator", "approver"}
    assert not here.has_usable_password()
    programs = programs_of("ann")
    assert programs.get("/api/v1/clusters/").status_code == 200

    keycloak.set_group(ann, "kafka-admins", member=True)
    later()
    assert client.get("/people/").status_code == 200
    keycloak.set_group(ann, "kafka-admins", member=False)
    keycloak.set_group(ann, "kafka-operators", member=False)
    later()
    assert client.get("/people/").status_code == 403
    assert programs.post("/api/v1/clusters/", {}).status_code == 403
    assert programs.get("/api/v1/clusters/").status_code == 200
    # No role at all ends sessions and tokens.
    keycloak.set_group(ann, "kafka-approvers", member=False)
    later()
    assert programs.get("/api/v1/clusters/").status_code == 401
    assert client.get("/clusters/").status_code == 302
    assert not here.auth_token_set.exists()
    whys = Transition.objects.filter(subject="user", name="ann").values_list("why", flat=True)
    assert any("No group at the identity provider" in why for why in whys)


def test_a_grant_to_a_group_shows_one_flow_until_the_group_is_taken_at_the_provider(
    keycloak: Keycloak,
) -> None:
    """In real time: access ends within 60 s, for pages and tokens."""
    mine = second_team(first_team()).pk
    AccessGrant.objects.create(
        group="payments", role="operator", scope="flow", flow_id=mine, created_by="admin"
    )
    zoe = keycloak.make_user("zoe", PASSWORD, ["payments", "others"])
    client = signed_in(keycloak, "zoe")
    assert role_of(User.objects.get(username="zoe")) is Role.NONE
    programs = programs_of("zoe")
    listed = programs.get("/api/v1/flows/").json()["results"]
    assert [row["id"] for row in listed] == [mine]
    assert programs.get("/api/v1/flows/1/").status_code == 404
    assert programs.get("/api/v1/clusters/primary/").status_code == 404
    assert programs.get("/api/v1/people/").status_code == 403
    page = client.get("/flows/").content.decode()
    assert f"/flows/{mine}/" in page
    assert "/flows/1/" not in page
    assert client.get("/flows/1/", follow=True).status_code == 404
    assert client.get(f"/flows/{mine}/", follow=True).status_code == 200
    # Another grant of a group that the person does not have gives nothing.
    AccessGrant.objects.create(
        group="kafka-admins", role="viewer", scope="everything", created_by="admin"
    )
    assert programs.get("/api/v1/flows/1/").status_code == 404

    keycloak.set_group(zoe, "payments", member=False)
    until = time.monotonic() + 60
    open_ = {"page", "token"}
    while open_ and time.monotonic() < until:
        if client.get("/flows/").status_code == 302:
            open_.discard("page")
        if programs.get("/api/v1/flows/").status_code == 401:
            open_.discard("token")
        time.sleep(2)
    assert not open_
    left = SignInGroup.objects.filter(user__username="zoe")
    assert set(left.values_list("name", flat=True)) == {"others"}


def test_a_disabled_person_loses_sessions_and_tokens(keycloak: Keycloak) -> None:
    bob = keycloak.make_user("bob", PASSWORD, ["kafka-admins"])
    client = signed_in(keycloak, "bob")
    programs = programs_of("bob")
    later()
    assert client.get("/people/").status_code == 200
    later()
    assert programs.get("/api/v1/people/").status_code == 200
    keycloak.change(bob, enabled=False)
    assert programs.get("/api/v1/people/").status_code == 200
    later()
    answer = programs.get("/api/v1/people/")
    assert answer.status_code == 401
    assert "no longer confirms" in answer.json()["error"]["message"]
    assert client.get("/people/").status_code == 302


def test_a_person_without_a_group_is_told_so_and_has_no_account(keycloak: Keycloak) -> None:
    keycloak.make_user("cleo", PASSWORD, ["others"])
    client = signed_in(keycloak, "cleo")
    assert "_auth_user_id" not in client.session
    assert "None of your groups" in client.get("/login/").content.decode()
    assert not User.objects.filter(username="cleo").exists()


def test_an_answer_of_another_browser_signs_in_nobody(keycloak: Keycloak) -> None:
    """A code that an attacker got with their own account is not accepted from a victim."""
    keycloak.make_user("dan", PASSWORD, ["kafka-admins"])
    attacker, victim = Client(), Client()
    leave = attacker.get("/oidc/login/")
    back = keycloak.answer_of_browser(leave["Location"], "dan", PASSWORD)
    victim.get("/oidc/login/")
    assert victim.get(back).status_code in {302, 400}
    assert "_auth_user_id" not in victim.session
    # Nor is a code used twice.
    attacker.get(back)
    assert "_auth_user_id" in attacker.session
    again = Client()
    assert again.get(back).status_code in {302, 400}
    assert "_auth_user_id" not in again.session


def test_signing_out_leads_to_the_page_of_the_provider(keycloak: Keycloak) -> None:
    keycloak.make_user("eve", PASSWORD, ["kafka-admins"])
    client = signed_in(keycloak, "eve")
    answer = client.post("/logout/")
    assert answer["Location"].startswith(f"{keycloak.issuer}/protocol/openid-connect/logout?")
    assert client.get("/people/").status_code == 302
