"""The key that signs certificates, audit anchors and backups: given, or created on this host.

- The private key is never in the database, in a queued message, or in a log. Its public half is a
  row, so that its signatures can be verified on every host, permanently.
- `UNDERSTUDY_SIGNING_KEY` (or `…_FILE`) is used where it is set: Ed25519 in PEM. Otherwise the
  first certificate creates a key in `UNDERSTUDY_SIGNING_KEY_PATH`, readable by its owner only.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from django.conf import settings

from mirrors.domain.drills.certificates.signature import fingerprint_of
from mirrors.domain.errors import UnderstudyError
from mirrors.models import SigningKey

_OTHERS = 0o077


class SigningKeyUnusable(UnderstudyError):
    """The key exists, or should, and is unusable; the sentence names only its location."""

    code = "signing_key_unusable"


def load_key() -> Ed25519PrivateKey:
    """The key of this process; created when there is none yet."""
    given: str = settings.UNDERSTUDY_SIGNING_KEY
    if given:
        return _parse(given.encode(), "UNDERSTUDY_SIGNING_KEY")
    path = Path(settings.UNDERSTUDY_SIGNING_KEY_PATH)
    try:
        if not path.exists():
            _make(path)
        if path.stat().st_mode & _OTHERS:
            raise SigningKeyUnusable(
                f"The signing key {path} is readable by users other than its owner, so it is not "
                f"used. If nobody read it, run chmod 600 {path}; otherwise delete it, and a new "
                "one is created."
            )
        return _parse(path.read_bytes(), str(path))
    except OSError as error:
        raise SigningKeyUnusable(
            f"The signing key {path} cannot be read or created: {error.strerror}. Give the "
            "worker a writable directory (UNDERSTUDY_SIGNING_KEY_PATH), or the key itself "
            "(UNDERSTUDY_SIGNING_KEY_FILE)."
        ) from None


def publish_key(key: Ed25519PrivateKey) -> bytes:
    """Store the public half as a row, once, and return it."""
    public = key.public_key().public_bytes_raw()
    SigningKey.objects.get_or_create(
        fingerprint=fingerprint_of(public),
        defaults={"public_key": public.hex(), "host": settings.UNDERSTUDY_HOST},
    )
    return public


def known_keys() -> dict[str, str]:
    return dict(SigningKey.objects.values_list("fingerprint", "public_key"))


def trusted_keys(public_keys: Sequence[str] = ()) -> dict[str, str]:
    """Public keys in hex by fingerprint: known ones, this host's if it has one, and those given.

    Raises an UnderstudyError for a text that is no Ed25519 public key of 64 hex digits.
    """
    found = known_keys()
    if settings.UNDERSTUDY_SIGNING_KEY or Path(settings.UNDERSTUDY_SIGNING_KEY_PATH).exists():
        own = load_key().public_key().public_bytes_raw()
        found[fingerprint_of(own)] = own.hex()
    for text in public_keys:
        public = public_key_of(text)
        found[fingerprint_of(public)] = public.hex()
    return found


def public_key_of(text: str) -> bytes:
    """Parse a public key as the page of certificates shows it: 64 hex digits."""
    try:
        public = bytes.fromhex(text.strip())
        Ed25519PublicKey.from_public_bytes(public)
    except ValueError:
        raise UnderstudyError(
            "A public key is 64 hexadecimal digits, as the page of certificates shows it.",
            code="public_key",
        ) from None
    return public


def _make(path: Path) -> None:
    """Create the file completely or not at all, by one of any number of processes."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    mine = path.with_name(f"{path.name}.{secrets.token_hex(6)}")
    handle = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        # The link fails where another process was first; that process's key is used.
        os.link(mine, path)
    except FileExistsError:
        pass
    finally:
        mine.unlink()


def _parse(text: bytes, place: str) -> Ed25519PrivateKey:
    try:
        key = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SigningKeyUnusable(
            f"{place} is not an Ed25519 private key in PEM without a passphrase. Create one with "
            "openssl genpkey -algorithm ed25519."
        )
    return key
