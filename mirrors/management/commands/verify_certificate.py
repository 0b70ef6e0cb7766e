"""manage.py verify_certificate FILE: is it, byte for byte, a certificate that was issued here?"""

from __future__ import annotations

import hashlib
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.drills.certificates.signature import Verification, fingerprint_of, verify
from mirrors.domain.drills.certificates.tables import title_of
from mirrors.domain.errors import UnderstudyError
from mirrors.services.drills.certificates.signing_key import known_keys, public_key_of


class Command(BaseCommand):
    help = "Check whether a certificate is genuine; exits with 1 if it is not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="the JSON file of a certificate; - for standard input")
        parser.add_argument("--evidence", help="the evidence file: its digest is compared")
        parser.add_argument(
            "--public-key",
            help="64 hexadecimal digits; then no database is used, and only that key is trusted",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        text = self._read(options["file"])
        given = options["public_key"]
        found = verify(text, _one_key(given) if given else known_keys())
        if not found.genuine or found.document is None:
            raise CommandError(f"Not genuine. {found.sentence}")
        document = found.document
        lines = [
            f"Genuine. {found.sentence}",
            f"{title_of(document)}.",
            document["sentence"],
            f"Issued {document['issued_at']}, number {document['number']}.",
        ]
        if options["evidence"]:
            lines.append(self._compare(found, options["evidence"]))
        return "\n".join(lines)

    def _compare(self, found: Verification, path: str) -> str:
        wanted = (found.document or {})["evidence"]["digest"]
        if hashlib.sha256(self._read(path)).hexdigest() != wanted:
            raise CommandError(
                "The certificate is genuine, but its digest of the evidence differs. The "
                "evidence was changed, or belongs to another drill."
            )
        return "The evidence matches the certificate: its digest is the same."

    def _read(self, path: str) -> bytes:
        try:
            return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from None


def _one_key(text: str) -> dict[str, str]:
    try:
        key = public_key_of(text)
    except UnderstudyError as error:
        raise CommandError(error.message) from None
    return {fingerprint_of(key): key.hex()}
