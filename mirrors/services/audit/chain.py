"""Seals entries of the audit log into a chain, signs anchors, and verifies both.

Entries are sealed by a periodic task, so that no transaction waits for another one. An entry is
protected some seconds after it was written.

- One worker at a time seals: it locks the one row of AuditHead.
- Sealed entries get consecutive positions in the order in which they were sealed.
- An anchor is signed with the key of certificates, about every hour, and before old entries are
  deleted. It is also a log line, so a log server keeps what the database could lose.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.conf import settings
from django.db import transaction
from django.db.models import Max, Min
from django.utils import timezone

from mirrors.domain.audit import chain
from mirrors.domain.drills.certificates.signature import fingerprint_of
from mirrors.models import AuditAnchor, AuditHead, Transition
from mirrors.services.drills.certificates.signing_key import (
    SigningKeyUnusable,
    known_keys,
    load_key,
    publish_key,
)

log = logging.getLogger(__name__)

AT_ONCE = 500
ANCHOR_EVERY = timedelta(hours=1)
_COVERED = (
    *("pk", "subject", "subject_id", "field", "name", "who", "kind", "from_state", "to_state"),
    *("why", "result", "reference", "address", "detail"),
)


def seal(*, most: int = AT_ONCE) -> int:
    """Seal the oldest entries that are not sealed yet; returns how many."""
    with transaction.atomic():
        AuditHead.objects.get_or_create(pk=1, defaults={"digest": chain.START})
        head = AuditHead.objects.select_for_update().get(pk=1)
        rows = list(Transition.objects.filter(position=None).order_by("pk")[:most])
        for row in rows:
            head.position += 1
            head.digest = chain.digest_of(head.digest, head.position, facts_of(row))
            row.position, row.digest = head.position, head.digest
        Transition.objects.bulk_update(rows, ["position", "digest"], batch_size=100)
        head.save()
    return len(rows)


def facts_of(row: Transition) -> dict[str, Any]:
    """What the digest of an entry covers."""
    return {name: getattr(row, name) for name in _COVERED} | {"when": _text(row.when)}


def anchor_if_due(*, now: datetime) -> AuditAnchor | None:
    """Sign the end of the chain when the last anchor is old and entries followed it."""
    head = AuditHead.objects.filter(pk=1).first()
    newest = AuditAnchor.objects.first()
    if head is None or not head.position or (newest and newest.position >= head.position):
        return None
    if newest and datetime.fromisoformat(newest.at) > now - ANCHOR_EVERY:
        return None
    try:
        return sign_anchor(position=head.position, digest=head.digest, now=now)
    except SigningKeyUnusable as error:
        log.warning("the audit log has no new signed anchor: %s", error.message)
        return None


def sign_anchor(*, position: int, digest: str, now: datetime) -> AuditAnchor:
    key = load_key()
    public = publish_key(key)
    at = _text(now)
    signature = key.sign(chain.anchor_text(position, digest, at)).hex()
    row, made = AuditAnchor.objects.get_or_create(
        position=position,
        defaults={
            "digest": digest,
            "at": at,
            "fingerprint": fingerprint_of(public),
            "signature": signature,
        },
    )
    if made:
        log.info(
            "audit anchor: position %s digest %s at %s key %s signature %s",
            *(position, digest, at, row.fingerprint, signature),
        )
    return row


def verify(*, keys: dict[str, str] | None = None) -> chain.Verdict:
    """Verify all sealed entries. `keys`: the trusted public keys by their fingerprints."""
    trusted = known_keys() if keys is None else keys
    rows = Transition.objects.filter(position__isnull=False).order_by("position")
    anchors = [_anchor(row, trusted) for row in AuditAnchor.objects.all()]
    verdict = chain.verify(_links(rows.iterator(chunk_size=2000)), anchors)
    head = AuditHead.objects.filter(pk=1).first()
    if head and verdict.is_intact and head.position != verdict.last:
        words = f"The chain ends at {head.position}, the last entry is {verdict.last}."
        return chain.Verdict(
            verdict.checked, verdict.first, verdict.last, verdict.anchors, (words,)
        )
    return verdict


def delete_old_entries(*, now: datetime) -> int:
    """Delete the entries before the first one that is younger than UNDERSTUDY_AUDIT_DAYS.

    The chain then begins at a signed anchor. Without a usable key nothing is deleted.
    """
    limit = now - timedelta(days=settings.UNDERSTUDY_AUDIT_DAYS)
    sealed = Transition.objects.filter(position__isnull=False)
    first_kept = sealed.filter(when__gte=limit).aggregate(found=Min("position"))["found"]
    if first_kept is None:
        first_kept = sealed.aggregate(found=Max("position"))["found"]
    last = sealed.filter(position__lt=first_kept or 0).order_by("-position").first()
    if last is None or last.position is None:
        return 0
    try:
        sign_anchor(position=last.position, digest=last.digest, now=now)
    except SigningKeyUnusable as error:
        log.warning("old audit entries stay, since no anchor can be signed: %s", error.message)
        return 0
    deleted, _ = sealed.filter(position__lte=last.position).delete()
    AuditAnchor.objects.filter(position__lt=last.position).delete()
    return deleted


def _links(rows: Iterator[Transition]) -> Iterator[chain.Link]:
    for row in rows:
        yield chain.Link(row.position or 0, row.digest, facts_of(row))


def _anchor(row: AuditAnchor, keys: dict[str, str]) -> chain.Anchor:
    trusted = False
    if public := keys.get(row.fingerprint):
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
                bytes.fromhex(row.signature), chain.anchor_text(row.position, row.digest, row.at)
            )
            trusted = True
        except (InvalidSignature, ValueError):
            pass
    return chain.Anchor(row.position, row.digest, trusted)


def _text(when: datetime) -> str:
    return when.astimezone(timezone.get_default_timezone()).isoformat(timespec="microseconds")
