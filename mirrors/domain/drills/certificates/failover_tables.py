"""The tables of a failover or switchover certificate, and of what was counted afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirrors.domain.account.sentences import amount
from mirrors.domain.drills.certificates.shared_tables import (
    CertificateTable,
    cluster_text,
    left_behind_tables,
    names_text,
    people_table,
    signature_table,
    steps_table,
    time_text,
    verification_rows,
    verified_tables,
)
from mirrors.domain.formatting import UNKNOWN, arrow, count


def run_tables(document: Mapping[str, Any]) -> tuple[CertificateTable, ...]:
    """Return the tables. The document must be genuine."""
    found = (
        _result(document),
        _amounts(document),
        *left_behind_tables(document["left_behind"]),
        _scope(document["scope"]),
        *verified_tables(document),
        steps_table(document["steps"]),
        people_table(document["people"]),
        signature_table(document),
    )
    return tuple(sheet for sheet in found if sheet.rows)


def run_title(document: Mapping[str, Any]) -> str:
    run = document["run"]
    what = "one application of " if document["scope"].get("application") else ""
    text = f"{run['kind'].capitalize()} of {what}{arrow(document['scope']['flow'])}"
    return f"{text}: counted afterwards" if document["supplements"] else f"{text}: succeeded"


def _result(document: Mapping[str, Any]) -> CertificateTable:
    run, first = document["run"], document["supplements"]
    rows = [
        ("Summary", document["sentence"]),
        *verification_rows(document),
        ("Run", f"number {run['number']}"),
        ("Begun", time_text(run["begun_at"])),
        ("Ended", time_text(run["ended_at"])),
    ]
    if first:
        rows.append(("Supplements certificate", f"{first['number']}, SHA-256 {first['digest']}"))
    return CertificateTable("Result", tuple(row for row in rows if row[1] != UNKNOWN))


def _amounts(document: Mapping[str, Any]) -> CertificateTable:
    said, counted = document["totals"], document["counted"]
    rows = [
        ("Not replicated, as the run ended", _amount(said, "loss")),
        ("Re-read, as the run ended", _amount(said, "re_reads")),
    ]
    if counted:
        rows += [
            ("Not replicated, counted", _amount(counted, "loss")),
            ("Re-read, counted", _amount(counted, "re_reads")),
            ("Counted", time_text(counted["counted_at"])),
        ]
    rows += [
        ("Group-partitions set to their offset", count(said.get("moved"))),
        ("Group-partitions not set", count(said.get("not_moved"))),
    ]
    return CertificateTable("What was lost", tuple(rows))


def _amount(sums: Mapping[str, Any], name: str) -> str:
    text = amount(sums.get(name), sums.get(f"{name}_certainty") or "unknown")
    unknown = sums.get(f"{name}_unknown")
    return f"{text}; unknown for {count(unknown)} more" if unknown else text


def _scope(scope: Mapping[str, Any]) -> CertificateTable:
    return CertificateTable(
        "Scope",
        (
            ("Flow", arrow(scope["flow"])),
            *_application(scope),
            ("Source", cluster_text(scope["source"])),
            ("Target", cluster_text(scope["target"])),
            ("Topics", names_text(scope["topics"], scope["topic_count"])),
            ("Partitions", count(scope["partition_count"])),
            ("Groups", names_text(scope["groups"], scope["group_count"])),
        ),
    )


def _application(scope: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The rows of a run that moved one application; older certificates have none."""
    found = scope.get("application")
    if not found:
        return []
    groups = ", ".join(found["groups"]) or "each group with an offset in one of the topics"
    return [
        ("Extent", "One application; the flow went on with its other topics"),
        ("Topics by pattern", ", ".join(found["topics"])),
        ("Groups by pattern", groups),
    ]
