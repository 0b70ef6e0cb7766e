"""One-time codes, sign-in behind a proxy, and tokens that a provider would have to have signed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
import pyotp
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from controlplane.environment import role_mapping
from controlplane.single_sign_on import accounts, provider, roles
from mirrors.domain.errors import InvalidSettings
from mirrors.models import (
    OidcAccount,
    OneTimeCode,
    RecoveryCode,
    Role,
    Transition,
    role_of,
)
from mirrors.services import encryption, one_time_codes
from mirrors.services.users import create_token, ensure_person

PASSWORD = "a-long-enough-1"
RECOVERY = re.compile(r"\b(?:[a-z2-7]{4}-){3}[a-z2-7]{4}\b")
ISSUER = "https://sso.example/realms/x"


@pytest.fixture
def ann(db: None) -> User:
    return ensure_person(username="ann", password=PASSWORD, role=Role.OPERATOR)


# --- one-time codes -------------------------------------------------------------------------------


def with_codes(user: User) -> pyotp.TOTP:
    """Turned on two minutes ago."""
    secret, address = one_time_codes.begin(user)
    assert "Understudy:ann" in address
    totp, then = pyotp.TOTP(secret), timezone.now() - timedelta(minutes=2)
    one_time_codes.confirm(user, totp.at(then), then)
    return totp


def sign_in(code: str, password: str = PASSWORD) -> bool:
    client = Client()
    client.post("/login/", {"username": "ann", "password": password, "code": code})
    return "_auth_user_id" in client.session


def test_a_password_alone_does_not_sign_in_an_account_with_codes(ann: User) -> None:
    assert sign_in("")
    totp = with_codes(ann)
    assert not sign_in("")
    assert not sign_in("000000")
    code = totp.now()
    assert not sign_in(code, password="wrong-password-1")
    assert sign_in(f"{code[:3]} {code[3:]}")
    # Nobody who looked over the shoulder uses it again.
    assert not sign_in(code)


def test_nor_does_it_give_a_token(ann: User) -> None:
    totp, client = with_codes(ann), APIClient()
    asked = {"username": "ann", "password": PASSWORD, "scope": "read"}
    refused = client.post("/api/v1/tokens/", asked)
    assert refused.status_code == 401
    assert "one-time code" in refused.json()["error"]["message"]
    assert client.post("/api/v1/tokens/", {**asked, "code": totp.now()}).status_code == 201


def test_codes_cannot_be_guessed_for_long(ann: User) -> None:
    totp = with_codes(ann)
    for number in range(8):
        sign_in(f"{number:06d}")
    assert not sign_in(totp.now())


def test_codes_are_good_for_a_minute_and_their_key_is_not_in_the_database(ann: User) -> None:
    totp = with_codes(ann)
    row = OneTimeCode.objects.get(user=ann)
    assert totp.secret not in row.secret
    assert encryption.decrypt(row.secret) == totp.secret
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert not one_time_codes.check(ann, totp.at(now - timedelta(seconds=61)), now)
    assert one_time_codes.check(ann, totp.at(now - timedelta(seconds=30)), now)
    assert one_time_codes.check(ann, totp.at(now), now)


def test_a_person_turns_them_on_and_an_admin_removes_them(ann: User) -> None:
    client, boss = Client(), Client()
    client.force_login(ann)
    page = client.post("/account/one-time-codes/").content.decode()
    key = str(encryption.decrypt(OneTimeCode.objects.get().secret))
    assert key in page
    assert client.post("/account/one-time-codes/", {"code": "000000"}).status_code == 422
    assert sign_in("")
    shown = client.post("/account/one-time-codes/", {"code": pyotp.TOTP(key).now()})
    codes = RECOVERY.findall(shown.content.decode())
    assert len(codes) == 10
    assert not sign_in("")
    # Nor are recovery codes shown again.
    again = client.get("/account/one-time-codes/").content.decode()
    assert not RECOVERY.findall(again)
    assert "10 of 10 recovery codes are left." in again
    # It is neither shown again nor replaced.
    assert key not in client.get("/account/one-time-codes/").content.decode()
    assert client.post("/account/one-time-codes/").status_code == 422
    boss.force_login(ensure_person(username="boss", password=None, role=Role.ADMIN))
    boss.post(f"/people/{ann.pk}/remove-codes/")
    assert sign_in("")
    changes = Transition.objects.filter(subject="user", name="ann").values_list(
        "to_state", flat=True
    )
    assert {"one-time codes on", "one-time codes off"} <= set(changes)


def test_a_recovery_code_signs_in_once_and_is_in_the_audit_log(ann: User) -> None:
    secret, _ = one_time_codes.begin(ann)
    then = timezone.now() - timedelta(minutes=2)
    totp = pyotp.TOTP(secret)
    first, second, *_ = codes = one_time_codes.confirm(ann, totp.at(then), then)
    assert len(set(codes)) == 10
    assert all(RECOVERY.fullmatch(code) for code in codes)
    stored = " ".join(RecoveryCode.objects.values_list("digest", flat=True))
    assert first.replace("-", "") not in stored
    assert not sign_in(first, password="wrong-password-1")
    assert sign_in(f" {first.upper()} ")
    assert not sign_in(first)
    assert one_time_codes.recovery_codes_left(ann) == 9
    entry = Transition.objects.get(to_state="recovery code used")
    assert (entry.name, entry.who) == ("ann", "ann")
    # A token takes one too, and new codes replace the old ones.
    client, asked = APIClient(), {"username": "ann", "password": PASSWORD, "scope": "read"}
    assert client.post("/api/v1/tokens/", {**asked, "code": second}).status_code == 201
    with pytest.raises(InvalidSettings):
        one_time_codes.renew_recovery_codes(ann, "000000")
    with pytest.raises(InvalidSettings):
        one_time_codes.renew_recovery_codes(ann, codes[2])
    (new, *_) = one_time_codes.renew_recovery_codes(ann, totp.now())
    assert not sign_in(codes[3])
    assert sign_in(new)


def test_a_person_renews_recovery_codes_with_the_device_only(ann: User) -> None:
    totp, client = with_codes(ann), Client()
    client.force_login(ann)
    path = "/account/one-time-codes/"
    assert client.post(path, {"renew": "1", "code": "000000"}).status_code == 422
    assert client.post(path, {"renew": "1"}).status_code == 422
    page = client.post(path, {"renew": "1", "code": totp.now()}).content.decode()
    assert len(RECOVERY.findall(page)) == 10


# --- behind a proxy -------------------------------------------------------------------------------


@pytest.fixture
def proxy(db: None, settings: Settings) -> dict[str, str]:
    settings.UNDERSTUDY_TRUSTED_PROXIES = ["10.0.0.0/8"]
    settings.UNDERSTUDY_PROXY_LOGIN_HEADER = "X-Remote-User"
    settings.UNDERSTUDY_PROXY_GROUPS_HEADER = "X-Remote-Groups"
    settings.UNDERSTUDY_GROUP_ROLES = {"ops": ("operator",), "boss": ("admin", "approver")}
    return {"HTTP_X_REMOTE_USER": "ann", "HTTP_X_REMOTE_GROUPS": "staff, ops"}


def test_a_trusted_proxy_signs_in_with_the_roles_of_the_groups(proxy: dict[str, str]) -> None:
    client = Client(REMOTE_ADDR="10.1.2.3")
    assert client.get("/clusters/", **proxy).status_code == 200
    ann = User.objects.get(username="ann")
    assert role_of(ann) is Role.OPERATOR
    assert not ann.has_usable_password()
    # A role that was taken is gone at once, and so is the session without the header.
    client.get("/clusters/", **{**proxy, "HTTP_X_REMOTE_GROUPS": "staff"})
    assert role_of(User.objects.get(username="ann")) is Role.NONE
    assert client.get("/clusters/").status_code == 302
    assert "_auth_user_id" not in client.session


def test_the_header_of_anybody_else_is_ignored(proxy: dict[str, str], settings: Settings) -> None:
    forged = {**proxy, "HTTP_X_FORWARDED_FOR": "10.1.2.3"}
    assert Client(REMOTE_ADDR="192.0.2.7").get("/clusters/", **forged).status_code == 302
    settings.UNDERSTUDY_PROXY_LOGIN_HEADER = ""
    assert Client(REMOTE_ADDR="10.1.2.3").get("/clusters/", **proxy).status_code == 302
    assert not User.objects.exists()


def test_a_proxy_takes_over_no_account_with_a_password(proxy: dict[str, str], ann: User) -> None:
    assert Client(REMOTE_ADDR="10.1.2.3").get("/clusters/", **proxy).status_code == 302
    reserved = {**proxy, "HTTP_X_REMOTE_USER": "runner"}
    assert Client(REMOTE_ADDR="10.1.2.3").get("/clusters/", **reserved).status_code == 302
    assert User.objects.count() == 1


def test_groups_are_read_strictly() -> None:
    assert role_mapping(" a=admin, b = operator+approver,a=auditor ") == {
        "a": ("admin", "auditor"),
        "b": ("operator", "approver"),
    }
    for wrong in ("a", "a=", "a=root", "=admin", "a=admin+"):
        with pytest.raises(ValueError, match="UNDERSTUDY_GROUP_ROLES"):
            role_mapping(wrong)


# --- tokens of a provider -------------------------------------------------------------------------


@pytest.fixture
def key(settings: Settings) -> Iterator[rsa.RSAPrivateKey]:
    """A provider's key, as its discovery and its key set say."""
    settings.UNDERSTUDY_OIDC_ISSUER, settings.OIDC_RP_CLIENT_ID = ISSUER, "understudy"
    private = rsa.generate_private_key(65537, 2048)
    public = jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key(), as_dict=True)
    document = {"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"}
    at = time.monotonic()
    provider._kept[f"{ISSUER}/.well-known/openid-configuration"] = (at, document)
    provider._kept[f"{ISSUER}/keys"] = (at, {"keys": [{**public, "kid": "k", "alg": "RS256"}]})
    yield private
    provider.forget()


def logout_token(key: rsa.RSAPrivateKey, **changes: Any) -> str:
    now = int(time.time())
    claims: dict[str, Any] = {
        "iss": ISSUER,
        "aud": "understudy",
        "sub": "s-1",
        "iat": now,
        "exp": now + 60,
        "events": {"http://schemas.openid.net/event/backchannel-logout": {}},
    }
    claims |= changes
    present = {name: value for name, value in claims.items() if value is not None}
    return jwt.encode(present, key, algorithm="RS256", headers={"kid": "k"})


def linked(user: User) -> OidcAccount:
    now = timezone.now()
    return OidcAccount.objects.create(
        user=user, issuer=ISSUER, subject="s-1", refresh_token="x", checked_at=now, asked_at=now
    )


def test_only_a_genuine_logout_token_ends_sessions(ann: User, key: rsa.RSAPrivateKey) -> None:
    linked(ann)
    person, anybody = Client(), Client()
    person.force_login(ann)
    programs = APIClient()
    programs.credentials(HTTP_AUTHORIZATION=f"Token {create_token(username='ann')}")
    other = rsa.generate_private_key(65537, 2048)
    wrong = [
        *("", "x.y.z", logout_token(other), logout_token(key, iss="https://evil.example")),
        *(
            logout_token(key, aud="other"),
            logout_token(key, events={}),
            logout_token(key, nonce="n"),
        ),
        *(logout_token(key, sub=None), logout_token(key, exp=1)),
        jwt.encode({"sub": "s-1", "iss": ISSUER}, None, algorithm="none"),
    ]
    for token in wrong:
        answer = anybody.post("/oidc/backchannel-logout/", {"logout_token": token})
        assert answer.status_code == 400, token
    assert person.get("/clusters/").status_code == 200
    answer = anybody.post("/oidc/backchannel-logout/", {"logout_token": logout_token(key)})
    assert answer.status_code == 200
    assert person.get("/clusters/").status_code == 302
    assert programs.get("/api/v1/clusters/").status_code == 200


def test_an_id_token_for_another_client_is_refused(key: rsa.RSAPrivateKey) -> None:
    right = {"iss": ISSUER, "aud": "understudy", "sub": "s"}
    assert provider.checked_claims(right) == right
    assert provider.checked_claims({**right, "aud": ["understudy", "b"], "azp": "understudy"})
    wrong = (
        {**right, "iss": "https://evil.example"},
        {**right, "aud": "other"},
        {**right, "aud": ["understudy", "b"]},
        {**right, "azp": "other"},
        {**right, "sub": ""},
        {"iss": ISSUER, "sub": "s"},
    )
    for claims in wrong:
        with pytest.raises(provider.Rejected):
            provider.checked_claims(claims)


def test_while_the_provider_is_silent_access_ends_after_the_grace(
    ann: User, settings: Settings
) -> None:
    settings.UNDERSTUDY_OIDC_ISSUER = "http://127.0.0.1:9/realms/x"
    settings.UNDERSTUDY_OIDC_GRACE_MINUTES = 10
    provider.forget()
    account, now = linked(ann), timezone.now()
    OidcAccount.objects.update(refresh_token=encryption.encrypt("r"))
    assert accounts.may_continue(ann, account.checked_at + timedelta(seconds=29))
    assert accounts.may_continue(ann, now + timedelta(minutes=9))
    assert not accounts.may_continue(ann, now + timedelta(minutes=12))
    # A person of a password is not asked about.
    other = ensure_person(username="bob", password=PASSWORD, role=Role.VIEWER)
    assert accounts.may_continue(other, now + timedelta(days=9))


def test_a_sign_in_links_no_account_by_its_name_or_address(ann: User, settings: Settings) -> None:
    settings.UNDERSTUDY_OIDC_ISSUER = ISSUER
    settings.UNDERSTUDY_GROUP_ROLES = {"ops": ("operator",)}
    User.objects.filter(pk=ann.pk).update(email="ann@example.com")
    claims = {"sub": "s-9", "preferred_username": "Ann", "email": "ann@example.com"}
    now = timezone.now()
    with pytest.raises(roles.SignInRefused, match="None of your groups"):
        accounts.sign_in(claims, "r", now)
    with pytest.raises(roles.SignInRefused, match="exists here already"):
        accounts.sign_in({**claims, "groups": ["ops"]}, "r", now)
    with pytest.raises(roles.SignInRefused, match="no refresh token"):
        accounts.sign_in({**claims, "groups": ["ops"]}, "", now)
    named = {**claims, "groups": ["ops"], "preferred_username": "cleo"}
    cleo = accounts.sign_in(named, "r", now)
    assert (cleo.username, role_of(cleo)) == ("cleo", Role.OPERATOR)
    # The subject decides, whatever the name is now.
    again = accounts.sign_in({**named, "preferred_username": "ann"}, "r", now)
    assert again.pk == cleo.pk
    User.objects.filter(pk=cleo.pk).update(is_active=False)
    with pytest.raises(roles.SignInRefused, match="deactivated"):
        accounts.sign_in(named, "r", now)


def test_without_a_provider_there_are_no_such_pages(db: None) -> None:
    for path in ("/oidc/login/", "/oidc/callback/?code=a&state=b"):
        assert Client().get(path).status_code == 404
    assert Client().post("/oidc/backchannel-logout/").status_code == 404
    assert "organization" not in Client().get("/login/").content.decode()
