"""Refusals that only rows can tell: taken, in use, too many, not there."""

from __future__ import annotations

from mirrors.domain.errors import UnderstudyError


class Conflict(UnderstudyError):
    """What is asked for contradicts what is: a name taken, a row in use, a state that moved on."""

    code = "conflict"


class TooMany(UnderstudyError):
    """Asked for more often than this deployment allows."""

    code = "rate_limited"
