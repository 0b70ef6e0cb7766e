"""Java key stores (JKS, JCEKS, PKCS12) to PEM files, to which clusters refer."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from mirrors.domain.errors import UnderstudyError
from mirrors.kafka.security.secrets import Secret

LARGEST = 5_000_000
KEYTOOL_DEADLINE_S = 60
_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}


def convert_keystore(*, store: Path, password: Secret, directory: Path, name: str) -> list[Path]:
    """Write `name.ca.pem`, or `name.crt.pem` and `name.key.pem`, readable by the owner only."""
    raw = _read(store)
    kind = _JAVA_STORES.get(raw[:4])
    if kind is not None:
        raw = _as_pkcs12(store, kind, password)
    try:
        found = pkcs12.load_pkcs12(raw, password.reveal().encode())
    except (ValueError, TypeError):
        raise UnderstudyError(
            f"{store} cannot be opened: it is not a JKS or PKCS12 store, or the password is wrong.",
            code="keystore",
        ) from None
    others = [entry.certificate for entry in found.additional_certs]
    if found.key is None:
        own = [found.cert.certificate] if found.cert else []
        return _write_all(directory, {f"{name}.ca.pem": _pem([*own, *others])}, store)
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [found.cert.certificate] if found.cert else []
    files = {f"{name}.crt.pem": _pem([*chain, *others]), f"{name}.key.pem": key}
    return _write_all(directory, files, store)


def _read(store: Path) -> bytes:
    try:
        with store.open("rb") as stream:
            raw = stream.read(LARGEST + 1)
    except OSError as error:
        raise UnderstudyError(f"{store} cannot be read: {error.strerror or error}.") from None
    if len(raw) > LARGEST:
        raise UnderstudyError(f"{store} is larger than {LARGEST} bytes, so it is not a key store.")
    return raw


def _as_pkcs12(store: Path, kind: str, password: Secret) -> bytes:
    """Convert Java's old format with Java's keytool."""
    home = os.environ.get("JAVA_HOME", "")
    keytool = shutil.which("keytool", path=f"{home}/bin") if home else None
    keytool = keytool or shutil.which("keytool")
    if keytool is None:
        raise UnderstudyError(
            f"{store} is a {kind} store, which only Java's keytool reads, and there is no keytool "
            "here. Install a Java runtime, or set JAVA_HOME."
        )
    with tempfile.TemporaryDirectory(prefix="understudy-") as private:
        made = Path(private) / "store.p12"
        # The password goes through the environment: every process can read arguments.
        command = [
            keytool, "-importkeystore", "-noprompt",
            "-srckeystore", str(store), "-srcstoretype", kind, "-srcstorepass:env", "STORE_PASS",
            "-destkeystore", str(made), "-deststoretype", "PKCS12",
            "-deststorepass:env", "STORE_PASS",
        ]  # fmt: skip
        environment = {"PATH": os.environ.get("PATH", ""), "STORE_PASS": password.reveal()}
        try:
            done = subprocess.run(  # noqa: S603 - an argument list of our own, no shell
                command, env=environment, capture_output=True, timeout=KEYTOOL_DEADLINE_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise UnderstudyError(f"keytool did not respond in {KEYTOOL_DEADLINE_S} s.") from None
        if done.returncode or not made.exists():
            raise UnderstudyError(
                f"keytool cannot open {store}: the password is wrong, or a key in it has another "
                "password than the store. Give both the same with `keytool -keypasswd`.",
                code="keystore",
            )
        return made.read_bytes()


def _pem(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _write_all(directory: Path, files: dict[str, bytes], store: Path) -> list[Path]:
    if not all(files.values()):
        raise UnderstudyError(f"{store} contains no certificate.")
    written: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            path = directory / name
            # Never overwrite a file, and never create one that others can read.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            written.append(path)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        raise UnderstudyError(
            f"Nothing was written to {directory}: {error.strerror or error} ({error.filename})."
        ) from None
    return written
