"""Certificates of drills and runs: one signed document in canonical form, and its verification.

Invariants:
A. The issued file is the canonical form of the document. A file that differs by one byte is
   rejected, even with the same content.
B. Only keys that the verifier knows are accepted: a certificate names its key but cannot vouch for
   it.
C. The signature (Ed25519, RFC 8032) covers every field except itself, prefixed with the document's
   kind.
D. What is counted after a failover is a separate certificate. It names the first one by number and
   digest, and the first one stays as it was signed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def canonical(document: Any) -> bytes:
    """Return ASCII JSON with sorted keys and no spaces: equal documents give equal bytes."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def digest_of(document: Any) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()


FORMAT = 1
LONGEST = 1024 * 1024
DRILL = "understudy drill certificate"
FAILOVER = "understudy failover certificate"
_KINDS = (DRILL, FAILOVER)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verification:
    """The result of a verification. `document` is what could be read, genuine or not."""

    genuine: bool
    code: str
    sentence: str
    document: dict[str, Any] | None = None


def fingerprint_of(public_key: bytes) -> str:
    return hashlib.sha256(public_key).hexdigest()


def sign_certificate(
    facts: Mapping[str, Any],
    *,
    public_key: bytes,
    sign: Callable[[bytes], bytes],
    kind: str = DRILL,
) -> bytes:
    """Return the signed certificate as it is issued."""
    document = {
        **facts,
        "kind": kind,
        "format": FORMAT,
        "key": {"algorithm": "Ed25519", "fingerprint": fingerprint_of(public_key)},
    }
    return canonical({**document, "signature": sign(_prefix(kind) + canonical(document)).hex()})


def _prefix(kind: str) -> bytes:
    return f"{kind}\n".encode("ascii")


def verify(text: bytes, keys: Mapping[str, str]) -> Verification:
    """Verify a certificate. `keys` maps fingerprints to known public keys in hex."""
    document = _read(text)
    if isinstance(document, str):
        return Verification(genuine=False, code="unreadable", sentence=document)
    if document.get("kind") not in _KINDS or document.get("format") != FORMAT:
        sentence = (
            "This version does not know the kind or the format of this certificate. "
            "Use the JSON file of the certificate as it was downloaded."
        )
        return Verification(genuine=False, code="not_ours", sentence=sentence)
    key = document.get("key")
    fingerprint = key.get("fingerprint") if isinstance(key, dict) else None
    public = keys.get(fingerprint) if isinstance(fingerprint, str) else None
    if public is None:
        return _refused(document, "unknown_key", _unknown_key(fingerprint))
    return _compare(text, document, public)


def _read(text: bytes) -> dict[str, Any] | str:
    """Return the document, or a sentence that says why it cannot be read."""
    if len(text) > LONGEST:
        return f"It is larger than {LONGEST // 1024} KiB, so it is not a certificate."
    try:
        document = json.loads(text.decode("ascii"))
    except (ValueError, RecursionError):
        return (
            "It cannot be read as JSON: it is not a certificate, or it was changed or truncated. "
            "Download it again."
        )
    if not isinstance(document, dict):
        return "It is JSON, but not a certificate: a certificate is one object."
    return document


def _compare(text: bytes, document: dict[str, Any], public: str) -> Verification:
    try:
        signature = bytes.fromhex(document["signature"])
        rest = {name: value for name, value in document.items() if name != "signature"}
        signed = _prefix(document["kind"]) + canonical(rest)
        whole = canonical(document)
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, signed)
    except (InvalidSignature, KeyError, TypeError, ValueError, RecursionError):
        sentence = (
            "The signature does not match the content: it was changed after it was signed, or it "
            "is not from this installation. Do not rely on anything in it."
        )
        return _refused(document, "changed", sentence)
    if whole != text or document["signature"] != signature.hex():
        sentence = (
            "The content is what was signed, but the file was changed: it differs from the issued "
            "file in at least one byte. Download it again and give that file unchanged."
        )
        return _refused(document, "reformatted", sentence)
    return Verification(
        genuine=True,
        code="genuine",
        sentence="The signature matches: this is the issued file, byte for byte.",
        document=document,
    )


def _unknown_key(fingerprint: Any) -> str:
    name = f"{str(fingerprint)[:16]}…" if isinstance(fingerprint, str) else "none"
    return (
        f"It names a key that is not known here ({name}), so it is unverified. Verify it where it "
        "was issued, or give the public key of that installation."
    )


def _refused(document: dict[str, Any], code: str, sentence: str) -> Verification:
    return Verification(genuine=False, code=code, sentence=sentence, document=document)
