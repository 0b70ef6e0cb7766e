"""Moments as rows keep them (datetime, UTC) and as the rules take them (milliseconds)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def milliseconds(moment: datetime) -> int:
    return int((moment - _EPOCH) / timedelta(milliseconds=1))


def moment(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)
