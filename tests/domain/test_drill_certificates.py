"""Certificates: an issued one verifies, and one that differs by a byte does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.drills.certificates.signature import (
    LONGEST,
    canonical,
    digest_of,
    fingerprint_of,
    sign_certificate,
    verify,
)
from tests.domain.cases import laws

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
KEYS = {fingerprint_of(PUBLIC): PUBLIC.hex()}
FACTS: dict[str, Any] = {
    "number": "0123456789abcdef" * 2,
    "result": "failed",
    "sentence": "Der Standby war 42 s zurück → verfehlt.",
    "measured": {"loss": 7, "rpo_ms": 42_000, "rto_ms": None},
    "steps": [{"name": "look", "state": "succeeded"}],
}
TEXT = sign_certificate(FACTS, public_key=PUBLIC, sign=KEY.sign)


def test_what_was_issued_is_genuine_and_says_what_was_put_in() -> None:
    found = verify(TEXT, KEYS)
    assert (found.genuine, found.code) == (True, "genuine")
    assert found.document is not None
    assert {name: found.document[name] for name in FACTS} == FACTS
    assert sign_certificate(FACTS, public_key=PUBLIC, sign=KEY.sign) == TEXT


@laws
@given(st.integers(0, len(TEXT) - 1), st.integers(1, 255))
def test_any_flipped_byte_makes_it_not_genuine_and_says_why(at: int, flip: int) -> None:
    changed = bytearray(TEXT)
    changed[at] ^= flip
    found = verify(bytes(changed), KEYS)
    assert not found.genuine
    assert found.sentence.endswith(".")


@laws
@given(st.integers(0, len(TEXT)), st.binary(max_size=3), st.integers(0, 3))
def test_nothing_can_be_put_in_or_taken_out(at: int, more: bytes, less: int) -> None:
    changed = TEXT[:at] + more + TEXT[at + less :]
    assert verify(changed, KEYS).genuine == (changed == TEXT)


@laws
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_no_input_breaks_it(text: bytes) -> None:
    assert not verify(text, KEYS).genuine


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (json.dumps(json.loads(TEXT), indent=2).encode(), "reformatted"),
        (TEXT + b"\n", "reformatted"),
        (TEXT.replace(b'"failed"', b'"passed"'), "changed"),
        (TEXT.replace(b'"loss":7', b'"loss":0'), "changed"),
        (b"[" * 200_000, "unreadable"),
        (b"[1]", "unreadable"),
        (b"{}", "not_ours"),
        (b" " * (LONGEST + 1), "unreadable"),
        (TEXT.replace(b'"format":1', b'"format":2'), "not_ours"),
    ],
)
def test_each_kind_of_change_is_named(text: bytes, code: str) -> None:
    found = verify(text, KEYS)
    assert (found.genuine, found.code) == (False, code)


def test_a_certificate_does_not_vouch_for_its_own_key() -> None:
    other = Ed25519PrivateKey.generate()
    public = other.public_key().public_bytes_raw()
    text = sign_certificate(FACTS, public_key=public, sign=other.sign)
    assert verify(text, KEYS).code == "unknown_key"
    assert verify(text, {fingerprint_of(public): public.hex()}).genuine
    # A foreign certificate may name our key without being signed with it.
    assert (
        verify(sign_certificate(FACTS, public_key=PUBLIC, sign=other.sign), KEYS).code == "changed"
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@laws
@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_equal_documents_are_equal_bytes_whatever_their_order(document: dict[str, Any]) -> None:
    turned = dict(reversed(document.items()))
    assert canonical(turned) == canonical(document)
    assert canonical(json.loads(canonical(document))) == canonical(document)
    assert digest_of(turned) == digest_of(document)
