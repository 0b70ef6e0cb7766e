"""Errors that depend on rows: a name taken, a row in use, too many requests."""

from __future__ import annotations

from mirrors.domain.errors import UnderstudyError


class Conflict(UnderstudyError):
    """The request contradicts the current state: name taken, row in use, state changed."""

    code = "conflict"


class TooMany(UnderstudyError):
    """More requests than this deployment allows."""

    code = "rate_limited"
