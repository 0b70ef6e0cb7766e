"""Environment variables: text, switches, lists, secrets from files, the database URL."""

from __future__ import annotations

import os
import urllib.parse
from pathlib import Path
from typing import Any


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def env_bool(name: str, default: bool = False) -> bool:
    text = env_str(name)
    return text.lower() in {"1", "true", "yes", "on"} if text else default


def env_secret(name: str, default: str = "") -> str:
    """The value of NAME, or the content of the file that NAME_FILE names (Docker, Kubernetes)."""
    path = env_str(f"{name}_FILE")
    return Path(path).read_text(encoding="utf-8").strip() if path else env_str(name, default)


def env_list(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default).split(",") if part.strip()]


def database(url: str) -> dict[str, Any]:
    """`postgresql://user:password@host:port/name?sslmode=…` or `sqlite:///path`."""
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query))
    if parts.scheme == "sqlite":
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": urllib.parse.unquote(parts.path[1:]),
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
        "PORT": str(parts.port or ""),
        "CONN_MAX_AGE": 60,
        # After a restart of the database, old connections are replaced without an error.
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"connect_timeout": 5, **query},
    }
