"""The signing key: created once, readable by its owner only; a configured key has precedence."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pytest_django import Settings

from mirrors.kafka.security.secrets import check_reference
from mirrors.services.drills.certificates.signing_key import SigningKeyUnusable, load_key


def test_the_key_is_made_once_for_its_owner_alone_and_is_nowhere_else(
    signing_key: Path, db: None
) -> None:
    with ThreadPoolExecutor(4) as pool:
        keys = {key.private_bytes_raw() for key in pool.map(lambda _: load_key(), range(8))}
    assert len(keys) == 1
    assert stat.S_IMODE(signing_key.stat().st_mode) == 0o600
    assert list(signing_key.parent.iterdir()) == [signing_key]
    signing_key.chmod(0o644)
    with pytest.raises(SigningKeyUnusable, match="chmod 600"):
        load_key()


def test_a_key_that_is_given_is_used_and_a_wrong_one_is_named(
    settings: Settings, signing_key: Path
) -> None:
    mine = Ed25519PrivateKey.generate()
    settings.UNDERSTUDY_SIGNING_KEY = mine.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
    assert load_key().private_bytes_raw() == mine.private_bytes_raw()
    assert not signing_key.exists()
    settings.UNDERSTUDY_SIGNING_KEY = "hunter2"
    with pytest.raises(SigningKeyUnusable) as refused:
        load_key()
    assert "hunter2" not in refused.value.message


def test_no_reference_to_a_secret_leads_to_it(signing_key: Path) -> None:
    assert check_reference("env:UNDERSTUDY_SIGNING_KEY", environ={}) is not None
    place = signing_key.with_name("given.pem")
    named = {
        "UNDERSTUDY_SIGNING_KEY_PATH": str(place),
        "UNDERSTUDY_SECRET_ROOTS": str(place.parent),
    }
    assert "belongs to Understudy" in (check_reference(f"file:{place}", environ=named) or "")
