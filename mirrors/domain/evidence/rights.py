"""The rights that a plan found missing, for the readiness score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# Sentences that are kept.
_MOST = 20


def lacking_rights(plan: Mapping[str, Any]) -> list[str]:
    """Blockers and warnings of a plan (as JSON) that are about rights, blockers first."""
    rows = (*plan["blockers"], *plan["warnings"])
    return [row["sentence"] for row in rows if row["code"] in ("rights", "not_described")][:_MOST]
