"""Resolves secret references to values, only in the process that connects.

`env:NAME` is a variable, `file:/path` a whole file, `properties:/path:key` one key of a file of
Java properties, as MM2's FileConfigProvider reads it. `store:/path[:REFERENCE]` is a key store of
Java with the reference of its password; only TLS fields can have it (`keystores`).

The purpose of the secret and settings of the deployment determine what a reference may name
(`secret_scopes`), never the person who enters the reference.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.java_properties import read_properties
from mirrors.kafka.security import live_secrets
from mirrors.kafka.security.secret_scopes import Purpose, name_refusal, path_refusal

MAX_BYTES = 512 * 1024
HIDDEN = "(hidden)"


class SecretUnavailable(UnderstudyError):
    """A reference cannot be resolved, or is not allowed. The sentence names the reference only."""

    code = "secret_unavailable"


class Secret:
    """A value that is never printed, pickled or serialized. Only `reveal()` returns it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def quiet(self) -> str:
        """The value as a string whose repr is hidden, for clients that demand a `str` in a dict."""
        return RedactedStr(self._value)

    def __repr__(self) -> str:
        return f"Secret{HIDDEN}"

    def __str__(self) -> str:
        return HIDDEN

    def __format__(self, format_spec: str) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A secret must not leave its process: pass its reference instead.")


class RedactedStr(str):
    """A string whose repr is redacted, so that a configuration dictionary can be printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return HIDDEN


def resolve(
    reference: str,
    *,
    purpose: Purpose = Purpose.KAFKA,
    environ: Mapping[str, str] | None = None,
) -> Secret:
    """Return the value of a reference, or raise SecretUnavailable with a sentence that names it.

    From then on log lines of this process hide the value.
    """
    secret = _resolved(reference, purpose, environ)
    live_secrets.note(secret.reveal())
    return secret


def _resolved(reference: str, purpose: Purpose, environ: Mapping[str, str] | None) -> Secret:
    environment = os.environ if environ is None else environ
    scheme, _, rest = reference.partition(":")
    if scheme == "env" and rest:
        return _from_environment(reference, rest, purpose, environment)
    if scheme == "file" and rest:
        return _from_file(reference, rest, purpose, environment)
    if scheme == "properties" and rest:
        return _from_properties(reference, rest, purpose, environment)
    raise SecretUnavailable(
        "A secret must be given as a reference, env:NAME or file:/path, never as the value itself."
    )


def resolve_mask(reference: str, environ: Mapping[str, str] | None = None) -> Secret:
    """The key of a mask, from a secret of masks, or of clusters as in rules of earlier versions."""
    is_own = check_reference(reference, purpose=Purpose.MASK, environ=environ) is None
    return resolve(reference, purpose=Purpose.MASK if is_own else Purpose.KAFKA, environ=environ)


def check_reference(
    reference: str,
    *,
    purpose: Purpose = Purpose.KAFKA,
    environ: Mapping[str, str] | None = None,
) -> str | None:
    """Why a reference is not acceptable, without reading it; None if its form is allowed."""
    environment = os.environ if environ is None else environ
    scheme, _, rest = reference.partition(":")
    try:
        if scheme == "env" and rest:
            _check_name(reference, rest, purpose, environment)
        elif scheme == "file" and rest:
            _check_path(reference, rest, purpose, environment)
        elif scheme == "properties" and rest:
            _check_path(reference, rest.rpartition(":")[0], purpose, environment)
        elif scheme == "store" and rest and purpose is Purpose.KAFKA:
            path, _, password = rest.partition(":")
            _check_path(reference, path, purpose, environment)
            return check_reference(password, purpose=purpose, environ=environ) if password else None
        else:
            return "Enter a reference, env:NAME or file:/path, not the secret itself."
    except SecretUnavailable as error:
        return error.message
    return None


def _check_name(reference: str, name: str, purpose: Purpose, environ: Mapping[str, str]) -> None:
    if (why := name_refusal(name, purpose, environ)) is not None:
        raise SecretUnavailable(f"The secret reference {reference} is not allowed: {why}.")


def _from_environment(
    reference: str, name: str, purpose: Purpose, environ: Mapping[str, str]
) -> Secret:
    _check_name(reference, name, purpose, environ)
    value = environ.get(name, "")
    if not value:
        raise SecretUnavailable(
            f"The secret reference {reference} cannot be resolved: {name} is not set in the "
            "environment of the process that connects. Set it there and restart that process."
        )
    return Secret(value)


def _check_path(reference: str, path: str, purpose: Purpose, environ: Mapping[str, str]) -> Path:
    # The real path decides: neither .. nor a symbolic link leads out of an allowed root.
    real = Path(os.path.realpath(path.replace("\x00", "")))
    if (why := path_refusal(path, real, purpose, environ)) is not None:
        raise SecretUnavailable(f"The secret reference {reference} is not allowed: {why}.")
    return real


def read_bytes(
    reference: str,
    path: str,
    *,
    purpose: Purpose = Purpose.KAFKA,
    environ: Mapping[str, str] | None = None,
) -> bytes:
    """Return the file behind a reference. Raises SecretUnavailable, also for a large file."""
    real = _check_path(reference, path, purpose, os.environ if environ is None else environ)
    try:
        # Not a FIFO or a device: reading one could wait for ever.
        if not real.is_file():
            raise SecretUnavailable(
                f"The secret reference {reference} cannot be resolved: there is no such file "
                "where the connection is made. Put it there, or correct the reference."
            )
        with real.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SecretUnavailable(
            f"The secret reference {reference} cannot be read: {error.strerror or 'an I/O error'}."
        ) from None
    if len(raw) > MAX_BYTES:
        raise SecretUnavailable(
            f"The secret reference {reference} is rejected: the file is larger than "
            f"{MAX_BYTES // 1024} KiB, so it is hardly a secret."
        )
    return raw


def _from_file(reference: str, path: str, purpose: Purpose, environ: Mapping[str, str]) -> Secret:
    raw = read_bytes(reference, path, purpose=purpose, environ=environ)
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnavailable(
            f"The secret reference {reference} is rejected: the file is not UTF-8 text. Keys and "
            "certificates must be in PEM format; for a JKS or PKCS12 store write store:/path:env:"
            "NAME, with the reference of its password."
        ) from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        raise SecretUnavailable(f"The secret reference {reference} names an empty file.")
    return Secret(text)


def _from_properties(
    reference: str, rest: str, purpose: Purpose, environ: Mapping[str, str]
) -> Secret:
    path, _, key = rest.rpartition(":")
    lines, _ = read_properties(_from_file(reference, path, purpose, environ).reveal())
    # The last line of a key counts, as in Java.
    value = {line.key: line.value for line in lines}.get(key, "")
    if not value:
        raise SecretUnavailable(
            f"The secret reference {reference} cannot be resolved: the file has no such key, or "
            "the key has no value."
        )
    return Secret(value)
