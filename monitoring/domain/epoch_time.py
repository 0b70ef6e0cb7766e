"""Conversion between `datetime`, which models use, and epoch milliseconds, which rules use."""

from __future__ import annotations

from datetime import UTC, datetime


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
