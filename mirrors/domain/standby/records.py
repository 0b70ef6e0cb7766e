"""Records of the compacted topic `mm2-flow.<source>.internal`: a flow, its plan, its simulation.

The key contains flow, kind and part; the value is JSON with a version. A body larger than one
record is split into parts. Each part has the number of parts and the digest of the whole, so that
parts of two writes are never combined.

Every program with WRITE on the topic can append to it. So the first part is signed (Ed25519): flow,
kind, digest of the whole, and time. A body without the signature of a trusted key is not restored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, get_args

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from mirrors.domain.formatting import on_one_line

VERSION = 1
Kind = Literal["flow", "plan", "simulation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
# Quoted once more, and four bytes a character at worst: below the default limit of 1 MB a batch.
PART_CHARACTERS = 100_000
MOST_PARTS = 1000
_PREFIX, _SUFFIX = "mm2-flow.", ".internal"


def backup_topic(source_alias: str) -> str:
    """Return the topic's name. Its dots are literal, because MM2 must count it as internal."""
    return f"{_PREFIX}{source_alias}{_SUFFIX}"


def is_backup_topic(name: str) -> bool:
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BackupRecord:
    """The last stored body; `flow` is the flow's name."""

    flow: str
    kind: str
    body: dict[str, Any]
    written_at: int  # ms, from the signed part


@dataclasses.dataclass(frozen=True, kw_only=True)
class Signer:
    """One key. `sign` returns the Ed25519 signature of what it gets."""

    public_key: bytes
    sign: Callable[[bytes], bytes]

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.public_key).hexdigest()


def digest_of(body: dict[str, Any]) -> str:
    return hashlib.sha256(_text(body).encode()).hexdigest()


def to_records(
    flow: str, kind: Kind, body: dict[str, Any], *, signer: Signer, now: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values to append, in order. `now`: ms."""
    text, digest = _text(body), digest_of(body)
    cuts = range(0, max(1, len(text)), PART_CHARACTERS)
    if len(cuts) > MOST_PARTS:
        raise ValueError(f"the {kind} of {flow} needs more than {MOST_PARTS} records")
    for number, start in enumerate(cuts):
        key = {"flow": flow, "kind": kind, "part": number}
        value = {
            "version": VERSION,
            "parts": len(cuts),
            "digest": digest,
            "text": text[start : start + PART_CHARACTERS],
        }
        if number == 0:
            signature = signer.sign(_signed(flow, kind, digest, now)).hex()
            value |= {"at": now, "key": signer.fingerprint, "signature": signature}
        yield _text(key).encode(), _text(value).encode()


def from_records(
    records: Iterable[tuple[bytes | None, bytes | None]], *, keys: Mapping[str, str]
) -> tuple[list[BackupRecord], list[str]]:
    """Return complete signed bodies by name and kind, and a sentence for each that is neither.

    `keys` maps the fingerprints of trusted keys to public keys in hex.
    """
    parts: dict[tuple[str, str], dict[int, Any]] = {}
    trouble: list[str] = []
    for key, value in records:
        try:
            where = json.loads(key or b"")
            name, kind, number = str(where["flow"]), str(where["kind"]), int(where["part"])
            part = None if value is None else json.loads(value)
            if part is not None and (not isinstance(part, dict) or "version" not in part):
                raise ValueError("no version")
        except (ValueError, TypeError, KeyError):
            trouble.append("A record that Understudy did not write is skipped.")
            continue
        parts.setdefault((name, kind), {})[number] = part
    found = []
    for (name, kind), rows in sorted(parts.items()):
        body = _whole(rows)
        if isinstance(body, dict):
            reason = _forged(name, kind, rows[0], keys)
            if not reason:
                at = rows[0]["at"]
                found.append(BackupRecord(flow=name, kind=kind, body=body, written_at=at))
                continue
        else:
            reason = body
        if reason:
            trouble.append(on_one_line(f"The {kind} of {name} is skipped: {reason}."))
    return found, trouble


def _whole(rows: dict[int, Any]) -> dict[str, Any] | str:
    """Return the body, or the reason if it is incomplete; empty if it was deleted."""
    first = rows.get(0)
    if first is None:
        return ""
    if first["version"] != VERSION:
        return (
            f"it was written in format version {first['version']}, and this release reads "
            f"version {VERSION}; use the release that wrote it"
        )
    try:
        wanted = [rows[number] for number in range(min(int(first["parts"]), MOST_PARTS))]
        text = "".join(part["text"] for part in wanted)
        body = json.loads(text)
    except (KeyError, TypeError, ValueError):
        return "its last write is incomplete, and the previous content was deleted"
    if not isinstance(body, dict) or digest_of(body) != first.get("digest"):
        return "its parts belong to two different writes"
    return body


def _forged(flow: str, kind: str, first: dict[str, Any], keys: Mapping[str, str]) -> str:
    """Return why the signature does not count; empty if it does."""
    signature, key, at = (first.get(name) for name in ("signature", "key", "at"))
    if not isinstance(signature, str) or not isinstance(key, str) or type(at) is not int:
        return (
            "it is not signed, so any program that may write to the topic can have written it. "
            "The installation that replicates this flow signs it within a minute after it runs "
            "this release"
        )
    if (public := keys.get(key)) is None:
        return (
            f"it is signed with a key that is not trusted here ({key[:64]}). If that is the "
            "fingerprint on certificates of your installation, give its key "
            "(UNDERSTUDY_SIGNING_KEY_FILE) or its public key (--public-key)"
        )
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
            bytes.fromhex(signature), _signed(flow, kind, str(first["digest"]), at)
        )
    except (InvalidSignature, ValueError):
        return (
            "its signature does not match its content: somebody else than your installation "
            "wrote or changed it. Find out who may write to the topic"
        )
    return ""


def _signed(flow: str, kind: str, digest: str, at: int) -> bytes:
    """What the signature covers. The first line separates it from other uses of the key."""
    facts = {"flow": flow, "kind": kind, "digest": digest, "at": at, "version": VERSION}
    return b"understudy standby record\n" + _text(facts).encode()


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
