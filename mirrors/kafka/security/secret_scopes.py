"""Which variables and files a secret reference may name, by the purpose of the secret.

A person who edits a cluster or a channel also chooses the address that receives its secret, and
who edits a flow sees masks of guesses. Therefore:

- `KAFKA` (logins and keys of clusters), `NOTIFY` (alert channels and webhooks) and `MASK` (keys of
  masks in rules on records) share no secret.
- No reference reaches a secret of the installation itself: neither a variable of its own nor a
  file that such a variable names. Real paths and inodes are compared, so neither a symbolic nor a
  hard link leads there.
- No reference reaches a credential that the platform mounts, such as a service account's token:
  `/var/run` is `/run`, so Kubernetes puts it under the default root.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path

from mirrors.installation import state_directory

ENV_PATTERN = "UNDERSTUDY_SECRET_ENV_PATTERN"
ROOTS = "UNDERSTUDY_SECRET_ROOTS"
NOTIFY_ROOTS = "UNDERSTUDY_NOTIFY_ROOTS"
MASK_ROOTS = "UNDERSTUDY_MASK_ROOTS"
RESERVED_FILES = "UNDERSTUDY_RESERVED_FILES"

DEFAULT_ENV_PATTERN = r"^KAFKA_[A-Z0-9_]+$"
DEFAULT_ROOTS = "/run/secrets"
NOTIFY_PREFIX = "UNDERSTUDY_NOTIFY_"

_OWN_PREFIXES = ("UNDERSTUDY_", "DJANGO_", "CELERY_", "OTEL_")
_OWN_NAMES = frozenset(
    {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "PGPASSWORD", "PGPASSFILE", "PGSSLKEY"}
    # Spark gives these to the processes that it starts.
    | {"_SPARK_AUTH_SECRET", "PYSPARK_GATEWAY_SECRET", "PYTHON_WORKER_FACTORY_SECRET"}
)
_FILE_NAMES = frozenset({"PGPASSFILE", "PGSSLKEY"})
_PLATFORM = frozenset({"kubernetes.io", "eks.amazonaws.com"})
# Where the key that signs certificates of drills is made when no variable names it (settings.py).
_SIGNING_KEY = state_directory() / ".signing" / "ed25519.pem"


class Purpose(enum.StrEnum):
    """What a secret is for; each purpose has variables and files of its own."""

    KAFKA = "kafka"
    NOTIFY = "notify"
    MASK = "mask"


@dataclasses.dataclass(frozen=True)
class Reserved:
    """Variables and files that serve one purpose only.

    Without `roots`, a setting, files under the common roots whose names begin with `file_prefix`.
    """

    users: str
    prefix: str
    roots: str
    file_prefix: str
    # Settings, not secrets, although their names begin like those of secrets.
    settings: frozenset[str]

    def has(self, real: Path, environ: Mapping[str, str]) -> bool:
        if environ.get(self.roots):
            return _is_under(real, _roots(self.roots, environ))
        for root in _roots(ROOTS, environ):
            if real.is_relative_to(root):
                inside = real.relative_to(root)
                named = inside.name.startswith(self.file_prefix)
                return named or self.file_prefix in inside.parts[:-1]
        return False

    def where(self, environ: Mapping[str, str]) -> str:
        if environ.get(self.roots):
            return f"files under {environ[self.roots]} ({self.roots})"
        return (
            f"files under {environ.get(ROOTS, DEFAULT_ROOTS)} ({ROOTS}) whose name begins with "
            f"{self.file_prefix}"
        )


_ONLY = "use only secrets that were created for them"
_RESERVED = {
    Purpose.NOTIFY: Reserved(
        users="channels and hooks",
        prefix=NOTIFY_PREFIX,
        roots=NOTIFY_ROOTS,
        file_prefix="notify",
        settings=frozenset({"UNDERSTUDY_NOTIFY_ALLOW", NOTIFY_ROOTS}),
    ),
    Purpose.MASK: Reserved(
        users="masks",
        prefix="UNDERSTUDY_MASK_",
        roots=MASK_ROOTS,
        file_prefix="mask",
        settings=frozenset({MASK_ROOTS}),
    ),
}


def name_refusal(name: str, purpose: Purpose, environ: Mapping[str, str]) -> str | None:
    """Why a reference of this purpose may not name a variable; None when it may."""
    if (own := _RESERVED.get(purpose)) is not None:
        if name.startswith(own.prefix) and name not in own.settings:
            return None
        return f"{own.users} {_ONLY}, variables named {own.prefix}…"
    if is_own(name):
        return (
            "this variable belongs to Understudy itself and is never sent to a cluster. Set the "
            "value of the cluster as a variable named KAFKA_…, where the connection is made"
        )
    pattern = environ.get(ENV_PATTERN, DEFAULT_ENV_PATTERN)
    if re.fullmatch(pattern, name) is None:
        return f"the name must match {pattern} ({ENV_PATTERN})"
    return None


def path_refusal(path: str, real: Path, purpose: Purpose, environ: Mapping[str, str]) -> str | None:
    """Why a reference of this purpose may not name a file; `real` is its resolved path."""
    own = _RESERVED.get(purpose)
    is_absolute = "\x00" not in path and path.startswith("/")
    if own is not None and not (is_absolute and own.has(real, environ)):
        return f"{own.users} {_ONLY}, {own.where(environ)}"
    if own is None and not (is_absolute and _is_under(real, _roots(ROOTS, environ))):
        return f"the file must be under {environ.get(ROOTS, DEFAULT_ROOTS)} ({ROOTS})"
    # Files of channels before those of masks, if both have the same.
    for other, reserved in _RESERVED.items():
        if other is purpose:
            break
        if reserved.has(real, environ):
            return (
                f"this file is reserved for {reserved.users}. Keep the secret in another file "
                f"({reserved.roots})"
            )
    if _PLATFORM & set(real.parts) or ("azure", "tokens") in zip(
        real.parts, real.parts[1:], strict=False
    ):
        return "this file is a credential of the platform, not a secret for a cluster"
    return _own_file_refusal(real, own, environ)


def is_own(name: str) -> bool:
    """Whether a variable configures this installation, whatever it holds."""
    return name.startswith(_OWN_PREFIXES) or name.removesuffix("_FILE") in _OWN_NAMES


def own_files(environ: Mapping[str, str]) -> dict[str, str]:
    """The files that hold the installation's own secrets: real path -> the variable naming it."""
    found = {os.path.realpath(_SIGNING_KEY): "UNDERSTUDY_SIGNING_KEY_PATH"}
    for name, value in environ.items():
        if value.strip():
            for path in _files_in(name, value.strip()):
                found[os.path.realpath(path)] = name
    return found


def _files_in(name: str, value: str) -> Iterator[str]:
    if name == RESERVED_FILES:
        yield from filter(None, value.split(os.pathsep))
    elif is_own(name) and (
        name.endswith(("_FILE", "_KEY_PATH", "_CLIENT_KEY")) or name in _FILE_NAMES
    ):
        yield value
    elif name in {"DATABASE_URL", "REDIS_URL"}:
        yield from _files_in_url(value)


def _files_in_url(url: str) -> Iterator[str]:
    """A client key (`sslkey=/path`) or password file of the connection, and SQLite's database."""
    try:
        parts = urllib.parse.urlsplit(url)
    except ValueError:
        return
    if parts.scheme == "sqlite":
        yield urllib.parse.unquote(parts.path[1:])
    for _, value in urllib.parse.parse_qsl(parts.query):
        if value.startswith("/"):
            yield value


def _own_file_refusal(real: Path, own: Reserved | None, environ: Mapping[str, str]) -> str | None:
    for path, name in own_files(environ).items():
        if own is not None and name.startswith(own.prefix):
            continue
        if real.is_relative_to(path) or _is_same_file(real, path):
            return (
                f"this file belongs to Understudy itself ({name} names it), and references must "
                "not use it. Store the secret in a separate file"
            )
    return None


def _is_same_file(one: Path, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def _is_under(real: Path, roots: list[Path]) -> bool:
    return any(real.is_relative_to(root) for root in roots)


def _roots(variable: str, environ: Mapping[str, str]) -> list[Path]:
    named = environ.get(variable, DEFAULT_ROOTS)
    return [Path(root).resolve() for root in named.split(os.pathsep) if root.startswith("/")]
