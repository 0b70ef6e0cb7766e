"""Tables that the certificates of drills and of failovers share."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mirrors.domain.formatting import UNKNOWN, count, duration

# Names that a table lists; the file has all.
_NAMED = 40


@dataclasses.dataclass(frozen=True)
class CertificateTable:
    """One table. Without a header, its rows are name and value, or one sentence each."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()


def verification_rows(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the row of the verification; older certificates have none."""
    found = document.get("verification")
    if not found:
        return []
    return [("Verification", f"{found['result'].replace('_', ' ')}. {found['reason']}".strip())]


def steps_table(steps: Sequence[Mapping[str, Any]]) -> CertificateTable:
    return CertificateTable(
        "Steps",
        tuple(
            (
                step["does"],
                step["state"],
                time_text(step["started_at"]),
                _took(step["started_at"], step["ended_at"]),
                step["reason"],
            )
            for step in steps
        ),
        ("Step", "State", "Began", "Duration", "Result"),
    )


def left_behind_tables(rows: Sequence[Mapping[str, Any]]) -> Iterator[CertificateTable]:
    """Return what decisions leave on the source: the amount, who decided and why."""
    if rows:
        names = (
            row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
            for row in rows
        )
        lines = zip(names, (row["sentence"] for row in rows), strict=True)
        yield CertificateTable("Left behind by decision", tuple(lines))


def verified_tables(document: Mapping[str, Any]) -> Iterator[CertificateTable]:
    """Return up to when comparisons verified records; older certificates do not say it."""
    verified = document.get("verified")
    if verified:
        rows = (
            (
                f"{row['topic']}-{row['partition']}",
                f"offset {count(row['offset'])}, {time_text(row['at'])}",
            )
            for row in verified["partitions"]
        )
        yield CertificateTable("Records verified", (("Summary", verified["sentence"]), *rows))


def people_table(people: Sequence[Mapping[str, Any]]) -> CertificateTable:
    return CertificateTable("People", tuple((row["who"], row["did"]) for row in people))


def signature_table(document: Mapping[str, Any]) -> CertificateTable:
    evidence, key = document["evidence"], document["key"]
    return CertificateTable(
        "Evidence and signature",
        (
            ("Certificate", document["number"]),
            ("Issued", time_text(document["issued_at"])),
            ("Evidence", evidence["of"]),
            (f"Its digest, {evidence['algorithm']}", evidence["digest"] or "none"),
            (f"Signed with, {key['algorithm']}", key["fingerprint"]),
            ("Signature", document["signature"]),
        ),
    )


def cluster_text(cluster: Mapping[str, str] | None) -> str:
    if cluster is None:
        return UNKNOWN
    known = cluster["cluster_id"]
    return f"{cluster['alias']} (cluster id {known})" if known else cluster["alias"]


def names_text(names: Sequence[str], total: int) -> str:
    more = total - len(names[:_NAMED])
    text = ", ".join(names[:_NAMED])
    return f"{count(total)}: {text}{f' and {more:,} more' if more else ''}" if total else "0"


def time_text(text: str | None) -> str:
    if text is None:
        return UNKNOWN
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _took(start: str | None, end: str | None) -> str:
    if start is None or end is None:
        return UNKNOWN
    lasted = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return duration(lasted.total_seconds() * 1000)
