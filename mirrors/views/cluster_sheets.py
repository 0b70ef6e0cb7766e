"""The tables of a cluster's page as files."""

from __future__ import annotations

from typing import Any

from mirrors.models import Cluster, ClusterTest
from mirrors.models.cluster_groups import groups_of
from mirrors.views.sheets import CHANGES, Sheet

SHEETS = {
    "groups": Sheet("all_groups", ("group", "topics", "places", "flows", "moved", "last_seen")),
    "test": Sheet("asked", ("asked", "answer", "words")),
    "changes": CHANGES,
}


def files_of(cluster: Cluster, test: ClusterTest | None) -> dict[str, Any]:
    """What a file has beyond the page: all groups, and what a test found as rows of one kind."""
    found = test.result if test else {}
    addresses = [
        {
            "asked": f"address {one['host']}:{one['port']}",
            "answer": _word(one.get("reachable"), "reachable", "unreachable"),
            "words": one.get("reason") or "",
        }
        for one in found.get("addresses", [])
    ]
    brokers = [
        {
            "asked": f"broker {one['id']}",
            "answer": _word(one.get("reachable"), "reachable", "unreachable"),
            "words": f"{one.get('host')}:{one.get('port')} {one.get('reason') or ''}".strip(),
        }
        for one in found.get("brokers", [])
    ]
    rights = [
        {
            "asked": one["name"],
            "answer": _word(one.get("allowed"), "allowed", "missing"),
            "words": one.get("words", ""),
        }
        for one in found.get("rights", [])
    ]
    asked = addresses + brokers + rights
    return {"all_groups": groups_of(cluster).order_by("group"), "asked": asked}


def _word(known: bool | None, yes: str, no: str) -> str:
    return "unknown" if known is None else yes if known else no
