"""manage.py convert_keystore FILE: a JKS or PKCS12 store as PEM files, and says where they are."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.security.keystores import UnreadableStore, read_store
from mirrors.kafka.security.secrets import Secret, check_reference, resolve

_LARGEST = 5_000_000
_FIELDS = {
    ".ca.pem": ("ssl_ca", "ssl.truststore.certificates"),
    ".crt.pem": ("ssl_certificate", "ssl.keystore.certificate.chain"),
    ".key.pem": ("ssl_key", "ssl.keystore.key"),
}


class Command(BaseCommand):
    help = "Turn a Java key store into PEM files that clusters may refer to."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help="a JKS or PKCS12 store")
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
            made = _convert(
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


def _convert(*, store: Path, password: Secret, directory: Path, name: str) -> list[Path]:
    """Write `name.ca.pem`, or `name.crt.pem` and `name.key.pem`, readable by the owner only."""
    try:
        found = read_store(_read(store), password)
    except UnreadableStore as error:
        raise UnderstudyError(f"{store} {error}.", code="keystore") from None
    files = {f"{name}.ca.pem": found.certificates}
    if found.key is not None:
        files = {f"{name}.crt.pem": found.certificates, f"{name}.key.pem": found.key.reveal()}
    return _write_all(directory, files)


def _read(store: Path) -> bytes:
    try:
        with store.open("rb") as stream:
            raw = stream.read(_LARGEST + 1)
    except OSError as error:
        raise UnderstudyError(f"{store} cannot be read: {error.strerror or error}.") from None
    if len(raw) > _LARGEST:
        raise UnderstudyError(f"{store} is larger than {_LARGEST} bytes, so it is not a key store.")
    return raw


def _write_all(directory: Path, files: dict[str, str]) -> list[Path]:
    written: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = directory / name
            # Never overwrite a file, and never create one that others can read.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            written.append(path)
            with os.fdopen(handle, "w", encoding="ascii") as stream:
                stream.write(content)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UnderstudyError(
            f"Nothing was written to {directory}: {error.strerror or error} ({error.filename})."
        ) from None
    return written
