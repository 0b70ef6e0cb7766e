"""manage.py verify_audit: is the audit log as it was written? Exits with 1 if it is not."""

from __future__ import annotations

import hashlib
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.models import Transition
from mirrors.services.audit import chain


class Command(BaseCommand):
    help = "Verify the chain of audit entries and its signed anchors; exits with 1 on a finding."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--public-key",
            help="64 hexadecimal digits: trust only this key, not those of the database",
        )

    def handle(self, *args: Any, **options: Any) -> str:
        while chain.seal():
            pass
        verdict = chain.verify(keys=_keys(options["public_key"]))
        if not verdict.is_intact:
            raise CommandError("The audit log was changed.\n" + "\n".join(verdict.findings))
        waiting = Transition.objects.filter(position=None).count()
        if not verdict.checked:
            return "The audit log has no entries."
        return (
            f"The audit log is intact: {verdict.checked} entries, positions {verdict.first} to "
            f"{verdict.last}, {verdict.anchors} signed anchors, {waiting} entries not sealed yet."
        )


def _keys(given: str | None) -> dict[str, str] | None:
    if given is None:
        return None
    try:
        public = bytes.fromhex(given)
    except ValueError:
        raise CommandError("--public-key: enter 64 hexadecimal digits.") from None
    return {hashlib.sha256(public).hexdigest(): given}
