"""The tables of a certificate: the same text on the page and in the PDF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mirrors.domain.drills.certificates.failover_tables import run_tables, run_title
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
from mirrors.domain.formatting import UNKNOWN, arrow, count, duration

__all__ = ["CertificateTable", "state_of", "tables_of", "title_of"]

_HOW = {"at_most": ", at most", "counted": "", "unknown": ""}


def tables_of(document: Mapping[str, Any]) -> tuple[CertificateTable, ...]:
    """Return the tables. The document must be genuine."""
    if is_run(document):
        return run_tables(document)
    notes = [*document["faults"], *(row["sentence"] for row in document["breaches"])]
    found = (
        _result(document),
        CertificateTable("Missed", tuple((text,) for text in notes)),
        _objectives(document),
        _measured(document["measured"]),
        _scope(document["scope"]),
        *verified_tables(document),
        *left_behind_tables(document.get("left_behind") or ()),
        CertificateTable("Remarks", tuple((text,) for text in document["remarks"])),
        steps_table(document["steps"]),
        people_table(document["people"]),
        signature_table(document),
    )
    return tuple(sheet for sheet in found if sheet.rows)


def is_run(document: Mapping[str, Any]) -> bool:
    """Whether the certificate is of a switchover or failover, not of a drill."""
    return "run" in document


def title_of(document: Mapping[str, Any]) -> str:
    if is_run(document):
        return run_title(document)
    return f"Drill of {arrow(document['scope']['flow'])}: {document['result']}"


def state_of(document: Mapping[str, Any]) -> str:
    """Return `passed`, `failed` or `no_objectives`; for a failover `succeeded`."""
    result = str(document["result"])
    return result if result in ("passed", "failed", "succeeded") else "no_objectives"


def _result(document: Mapping[str, Any]) -> CertificateTable:
    drill = document["drill"]
    rows = [
        ("Result", document["result"]),
        *verification_rows(document),
        ("Summary", document["sentence"]),
        ("Drill", f"number {drill['number']}"),
        ("Schedule", drill["schedule"] or "none: requested by a person"),
        ("Scheduled for", time_text(drill["turn"])),
        ("Begun", time_text(drill["begun_at"])),
        ("Ended", time_text(drill["ended_at"])),
    ]
    return CertificateTable("Result", tuple(row for row in rows if row[1] != UNKNOWN))


def _objectives(document: Mapping[str, Any]) -> CertificateTable:
    wanted, measured = document["objectives"], document["measured"]
    missed = {row["objective"] for row in document["breaches"]}
    most = _HOW.get(measured["loss_is"], "")
    rows = (
        ("rpo_seconds", "RPO: age of the oldest record not replicated", measured["rpo_ms"], ""),
        ("rpo_records", "RPO: records that would be lost", measured["loss"], most),
        ("rto_seconds", "RTO: until all groups have resumed", measured["rto_ms"], ""),
    )
    return CertificateTable(
        "Objectives",
        tuple(
            (
                title,
                _objective(name, wanted.get(name)),
                (count(found) if name == "rpo_records" else duration(found)) + how,
                "missed" if name in missed else UNKNOWN if wanted.get(name) is None else "met",
            )
            for name, title, found, how in rows
        ),
        ("Objective", "At most", "Measured", "Result"),
    )


def _objective(name: str, value: int | None) -> str:
    if value is None:
        return "none"
    return count(value) if name == "rpo_records" else duration(value * 1000)


def _measured(measured: Mapping[str, Any]) -> CertificateTable:
    counts = (
        ("Consumer groups", "groups"),
        ("Group-partitions", "places"),
        ("Group-partitions verified", "proven"),
        ("Group-partitions not verified", "unproven"),
        ("Group-partitions at a wrong record", "differs"),
        ("Group-partitions that could not be read", "unread"),
        ("Records re-read", "re_reads"),
    )
    times = (("First record within", "first_record_ms"), ("Drained within", "drain_ms"))
    return CertificateTable(
        "Measured",
        tuple((title, count(measured[name])) for title, name in counts)
        + tuple((title, duration(measured[name])) for title, name in times),
    )


def _scope(scope: Mapping[str, Any]) -> CertificateTable:
    return CertificateTable(
        "Scope",
        (
            ("Flow", arrow(scope["flow"])),
            ("Source", cluster_text(scope["source"])),
            ("Target", cluster_text(scope["target"])),
            ("Topics", names_text(scope["topics"], scope["topic_count"])),
            ("Partitions", count(scope["partition_count"])),
            ("Groups", names_text(scope["groups"], scope["group_count"])),
            ("Blockers of a switchover then", count(scope["blockers"])),
        ),
    )
