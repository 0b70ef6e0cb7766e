"""The second factor of accounts with a password: one-time codes (TOTP, RFC 6238, by pyotp).

A code is good for its step of 30 s and for one step before and after, and only once. Ten recovery
codes sign in without the device, each once.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from datetime import datetime

import pyotp
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from mirrors.domain.errors import InvalidSettings
from mirrors.models import OneTimeCode, RecoveryCode
from mirrors.services.audit.accounts import note_person
from mirrors.services.encryption import decrypt, encrypt
from mirrors.services.errors import Conflict

STEP_S = 30
RECOVERY_CODES = 10
# Bytes of a recovery code, which are 16 letters and digits.
_RECOVERY_BYTES = 10
ISSUER = "Understudy"
_WRONG = (
    "This is not the code of this moment. Check the clock of the device, and try the next code."
)


def is_on(user: User) -> bool:
    return OneTimeCode.objects.filter(user=user, confirmed_at__isnull=False).exists()


def begin(user: User) -> tuple[str, str]:
    """A new key that is not used before it is confirmed: base32, and an address for apps."""
    if is_on(user):
        raise Conflict("This account has one-time codes already. An admin can remove them.")
    secret = pyotp.random_base32()
    OneTimeCode.objects.update_or_create(
        user=user, defaults={"secret": encrypt(secret), "confirmed_at": None, "last_step": 0}
    )
    return secret, pyotp.TOTP(secret).provisioning_uri(name=user.username, issuer_name=ISSUER)


@transaction.atomic
def confirm(user: User, code: str, now: datetime | None = None) -> list[str]:
    """From the first code on, each sign-in with the password needs one. Returns recovery codes,
    which nobody can read later."""
    row = OneTimeCode.objects.filter(user=user, confirmed_at=None).first()
    if row is None:
        raise Conflict("No new key waits for its first code. Begin again.")
    at = now or timezone.now()
    if not _matches(row, code, at):
        raise InvalidSettings({"code": [_WRONG]})
    row.confirmed_at = at
    row.save(update_fields=["confirmed_at"])
    note_person(user, what="one-time codes on")
    return _new_recovery_codes(row)


@transaction.atomic
def renew_recovery_codes(user: User, code: str, now: datetime | None = None) -> list[str]:
    """Ten new recovery codes instead of the present ones; needs a code of the device."""
    row = OneTimeCode.objects.filter(user=user, confirmed_at__isnull=False).first()
    if row is None:
        raise Conflict("This account has no one-time codes, so it needs no recovery codes.")
    if not _matches(row, code, now or timezone.now()):
        raise InvalidSettings({"code": [_WRONG]})
    note_person(user, what="recovery codes renewed")
    return _new_recovery_codes(row)


def recovery_codes_left(user: User) -> int:
    row = OneTimeCode.objects.filter(user=user, confirmed_at__isnull=False).first()
    return row.recovery_codes_left if row else 0


def check(user: User, code: str, now: datetime | None = None) -> bool:
    """Whether the code is right; always, for an account without codes."""
    row = OneTimeCode.objects.filter(user=user, confirmed_at__isnull=False).first()
    if row is None:
        return True
    at = now or timezone.now()
    return _matches(row, code, at) or _recovers(row, code, at)


def remove(user: User) -> None:
    """The account signs in with its password alone again."""
    deleted, _ = OneTimeCode.objects.filter(user=user).delete()
    if deleted:
        note_person(user, what="one-time codes off")


def _matches(row: OneTimeCode, code: str, at: datetime) -> bool:
    secret = decrypt(row.secret)
    given = "".join(code.split())
    if secret is None or not given.isascii():
        return False
    totp, present = pyotp.TOTP(secret, interval=STEP_S), int(at.timestamp()) // STEP_S
    return any(
        hmac.compare_digest(totp.generate_otp(step), given) and row.use(step)
        for step in (present, present - 1, present + 1)
    )


def _new_recovery_codes(row: OneTimeCode) -> list[str]:
    row.recovery_codes.all().delete()
    random = [secrets.token_bytes(_RECOVERY_BYTES) for _ in range(RECOVERY_CODES)]
    codes = [base64.b32encode(each).decode().lower() for each in random]
    RecoveryCode.objects.bulk_create(
        RecoveryCode(account=row, digest=_digest(code)) for code in codes
    )
    return ["-".join(code[at : at + 4] for at in range(0, len(code), 4)) for code in codes]


@transaction.atomic
def _recovers(row: OneTimeCode, code: str, at: datetime) -> bool:
    """Use up the recovery code, if it is one."""
    given = "".join(code.split()).replace("-", "").lower()
    unused = row.recovery_codes.filter(digest=_digest(given), used_at=None)
    if not unused.update(used_at=at):
        return False
    note_person(row.user, what="recovery code used", who=row.user.get_username())
    return True


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
