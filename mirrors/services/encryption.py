"""Encryption of secrets that rows hold: refresh tokens, keys of one-time codes (Fernet).

The key is derived from UNDERSTUDY_SECRET_KEY, so a copy of the database alone reveals none of them.
After a change of that key they are unreadable: people sign in again, and set up codes again.
"""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def encrypt(text: str) -> str:
    return _fernet().encrypt(text.encode()).decode()


def decrypt(text: str) -> str | None:
    """The text, or None if it was encrypted with another key."""
    try:
        return _fernet().decrypt(text.encode()).decode()
    except (InvalidToken, ValueError):
        return None


def _fernet() -> Fernet:
    derived = HKDF(hashes.SHA256(), 32, salt=None, info=b"understudy secrets in rows")
    return Fernet(base64.urlsafe_b64encode(derived.derive(settings.SECRET_KEY.encode())))
