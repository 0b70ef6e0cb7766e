"""manage.py convert_keystore FILE: a JKS or PKCS12 store as PEM files, and says where they are."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.security.secrets import check_reference, resolve
from mirrors.services.keystores import convert_keystore

_FIELDS = {
    ".ca.pem": ("ssl_ca", "ssl.truststore.certificates"),
    ".crt.pem": ("ssl_certificate", "ssl.keystore.certificate.chain"),
    ".key.pem": ("ssl_key", "ssl.keystore.key"),
}


class Command(BaseCommand):
    help = "Turn a Java key store into PEM files that clusters may refer to."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a JKS, JCEKS or PKCS12 store")
        parser.add_argument(
            "--password", required=True, help="a reference: env:NAME or file:/path, not the secret"
        )
        parser.add_argument("--out", default="/run/secrets", help="where to put the files")
        parser.add_argument(
            "--name", help="prefix of the files' names; by default the store's own name"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        store = Path(options["file"])
        directory = Path(options["out"]).absolute()
        name = options["name"] or store.stem
        if "/" in name or name.startswith("."):
            raise CommandError("--name is a file name prefix, not a path.")
        try:
            made = convert_keystore(
                store=store,
                password=resolve(options["password"]),
                directory=directory,
                name=name,
            )
        except UnderstudyError as error:
            raise CommandError(error.message) from None
        for path in made:
            ending = next(end for end in _FIELDS if path.name.endswith(end))
            field, key = _FIELDS[ending]
            self.stdout.write(f"{path} (mode 0600): {field} = file:{path}")
            self.stdout.write(f"  in mm2.properties: {key} = ${{dir:{path.parent}:{path.name}}}")
        if (why := check_reference(f"file:{made[0]}")) is not None:
            self.stdout.write(f"Before a cluster can use them: {why}")
