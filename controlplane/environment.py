"""Environment variables: text, numbers, switches, lists, secrets from files, the database URL.

A wrong value ends the program with one sentence (`WrongVariable`).
"""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from mirrors.kafka.security import live_secrets

_T = TypeVar("_T", int, float)
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
_SCHEMES = ("postgresql", "postgres", "sqlite")
_ROLES = ("viewer", "operator", "admin", "approver", "auditor")


class WrongVariable(SystemExit):
    """Ends the program that reads the settings: its sentence is printed, without a traceback."""

    def __init__(self, sentence: str) -> None:
        super().__init__(f"{sentence} docs/operations/install/environment.md has every variable.")


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def env_bool(name: str, default: bool = False) -> bool:
    text = env_str(name)
    if not text:
        return default
    if text.lower() not in _TRUE | _FALSE:
        raise WrongVariable(f"{name} is {text[:80]!r}; it must be 1 or 0.")
    return text.lower() in _TRUE


def env_int(name: str, default: int, *, least: int = 0) -> int:
    return _number(name, default, int, f"a whole number of {least} or more", least)


def env_float(name: str, default: float, *, least: float = 0.0) -> float:
    return _number(name, default, float, f"a number of {least:g} or more", least)


def _number(name: str, default: _T, parse: Callable[[str], _T], expected: str, least: _T) -> _T:
    text = env_str(name)
    if not text:
        return default
    try:
        value = parse(text)
        # A NaN is neither.
        if not least <= value < float("inf"):
            raise ValueError(text)
    except ValueError:
        raise WrongVariable(f"{name} is {text[:80]!r}; it must be {expected}.") from None
    return value


def env_secret(name: str, default: str = "") -> str:
    """The value of NAME, or the content of the file that NAME_FILE names (Docker, Kubernetes)."""
    value = env_str(name, default)
    if path := env_str(f"{name}_FILE"):
        try:
            value = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise WrongVariable(
                f"{name}_FILE names {path[:200]!r}, which cannot be read: {reason}."
            ) from None
    if "://" in value:
        return live_secrets.note_url(value)
    return live_secrets.note(value)


def env_list(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default).split(",") if part.strip()]


def largest_body() -> int:
    """The largest body of a request in bytes, for the server and for Django."""
    return env_int("UNDERSTUDY_MAX_BODY", 4 * 1024 * 1024, least=1024)


def database(url: str) -> dict[str, Any]:
    """`postgresql://user:password@host:port/name?sslmode=…` or `sqlite:///path`."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        # Not repeated: the address may have a password.
        raise WrongVariable(
            "DATABASE_URL has a port or host that cannot be read. It must look like "
            "postgresql://user:password@host:5432/name. Characters such as @ and / in a password "
            "are written as %40 and %2F."
        ) from None
    if parts.scheme not in _SCHEMES:
        raise WrongVariable(
            f"DATABASE_URL begins with {parts.scheme[:20]!r}; it must be one of "
            f"{', '.join(_SCHEMES)}."
        )
    query = dict(urllib.parse.parse_qsl(parts.query))
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": urllib.parse.unquote(parts.path[1:]),
            "CONN_MAX_AGE": 60,
            "OPTIONS": {
                "timeout": 20,
                # A writer locks at the start of its transaction, so it waits (timeout) instead
                # of failing later with "database is locked".
                "transaction_mode": "IMMEDIATE",
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": urllib.parse.unquote(parts.path[1:]),
        "USER": urllib.parse.unquote(parts.username or ""),
        "PASSWORD": urllib.parse.unquote(parts.password or ""),
        "HOST": query.pop("host", "") or urllib.parse.unquote(parts.hostname or ""),
        "PORT": str(port or ""),
        "CONN_MAX_AGE": 60,
        # After a restart of the database, old connections are replaced without an error.
        "CONN_HEALTH_CHECKS": True,
        # A server or a network that is gone is noticed within half a minute.
        "OPTIONS": {
            "connect_timeout": 5,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "tcp_user_timeout": 25_000,
            **query,
        },
    }


def origin_of(url: str) -> list[str]:
    """Scheme and host of an address, for a content security policy; none for no address."""
    parts = urllib.parse.urlsplit(url)
    return [f"{parts.scheme}://{parts.netloc}"] if parts.netloc else []


def role_mapping(text: str) -> dict[str, tuple[str, ...]]:
    """`admins=admin, operators=operator+approver`. Raises ValueError with a sentence."""
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        group, equals, named = part.rpartition("=")
        roles = tuple(word.strip() for word in named.split("+"))
        if not equals or not group.strip() or not set(roles) <= set(_ROLES):
            raise ValueError(
                f"UNDERSTUDY_GROUP_ROLES: {part[:80]!r} is not GROUP=ROLE or GROUP=ROLE+ROLE with "
                f"the roles {', '.join(_ROLES)}."
            )
        found[group.strip()] = found.get(group.strip(), ()) + roles
    return found


def group_roles() -> dict[str, tuple[str, ...]]:
    try:
        return role_mapping(env_str("UNDERSTUDY_GROUP_ROLES"))
    except ValueError as error:
        raise WrongVariable(str(error)) from None
