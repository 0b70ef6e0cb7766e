"""A certificate as people read it: tables of text, the same on the page and in the PDF."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from mirrors.domain.figures import UNKNOWN, arrow, count, duration

# Names that are written out; the file has all.
_NAMED = 40
_HOW = {"at_most": ", at most", "counted": "", "unknown": ""}


@dataclasses.dataclass(frozen=True)
class Sheet:
    """One table; without a header its rows are name and value, or one sentence each."""

    title: str
    rows: tuple[tuple[str, ...], ...]
    header: tuple[str, ...] = ()


def sheets_of(document: Mapping[str, Any]) -> tuple[Sheet, ...]:
    """Of a genuine document only: what is signed is whole."""
    notes = [*document["faults"], *(row["sentence"] for row in document["breaches"])]
    found = (
        _result(document),
        Sheet("Missed", tuple((words,) for words in notes)),
        _objectives(document),
        _measured(document["measured"]),
        _scope(document["scope"]),
        *_left_behind(document.get("left_behind") or ()),
        Sheet("Remarks", tuple((words,) for words in document["remarks"])),
        _steps(document["steps"]),
        _people(document["people"]),
        _seal(document),
    )
    return tuple(sheet for sheet in found if sheet.rows)


def title_of(document: Mapping[str, Any]) -> str:
    return f"Drill of {arrow(document['scope']['flow'])}: {document['result']}"


def state_of(document: Mapping[str, Any]) -> str:
    """`passed`, `failed` or `no_objectives`."""
    result = str(document["result"])
    return result if result in ("passed", "failed") else "no_objectives"


def _result(document: Mapping[str, Any]) -> Sheet:
    drill = document["drill"]
    rows = [
        ("Result", document["result"]),
        *_verification(document),
        ("In a sentence", document["sentence"]),
        ("Drill", f"number {drill['number']}"),
        ("Schedule", drill["schedule"] or "none: a person asked for it"),
        ("Turn", _time(drill["turn"])),
        ("Begun", _time(drill["begun_at"])),
        ("Ended", _time(drill["ended_at"])),
    ]
    return Sheet("Result", tuple(row for row in rows if row[1] != UNKNOWN))


def _verification(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A certificate from before this was told apart has none."""
    found = document.get("verification")
    if not found:
        return []
    return [("Verification", f"{found['result'].replace('_', ' ')}. {found['reason']}".strip())]


def _objectives(document: Mapping[str, Any]) -> Sheet:
    wanted, measured = document["objectives"], document["measured"]
    missed = {row["objective"] for row in document["breaches"]}
    most = _HOW.get(measured["loss_is"], "")
    rows = (
        ("rpo_seconds", "RPO: age of the oldest record not copied", measured["rpo_ms"], ""),
        ("rpo_records", "RPO: records that would be lost", measured["loss"], most),
        ("rto_seconds", "RTO: until every group reads again", measured["rto_ms"], ""),
    )
    return Sheet(
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
        ("Objective", "Wanted, at most", "Measured", "Verdict"),
    )


def _objective(name: str, value: int | None) -> str:
    if value is None:
        return "none"
    return count(value) if name == "rpo_records" else duration(value * 1000)


def _measured(measured: Mapping[str, Any]) -> Sheet:
    counts = (
        ("Consumer groups", "groups"),
        ("Places (a group in a partition)", "places"),
        ("Places proven by content", "proven"),
        ("Places not proven", "unproven"),
        ("Places at a wrong record", "differs"),
        ("Places that could not be read", "unread"),
        ("Records read twice", "re_reads"),
    )
    times = (("First record within", "first_record_ms"), ("Drained within", "drain_ms"))
    return Sheet(
        "Measured",
        tuple((title, count(measured[name])) for title, name in counts)
        + tuple((title, duration(measured[name])) for title, name in times),
    )


def _scope(scope: Mapping[str, Any]) -> Sheet:
    return Sheet(
        "Scope",
        (
            ("Flow", arrow(scope["flow"])),
            ("Source", _cluster(scope["source"])),
            ("Target", _cluster(scope["target"])),
            ("Topics", _names(scope["topics"], scope["topic_count"])),
            ("Partitions", count(scope["partition_count"])),
            ("Groups", _names(scope["groups"], scope["group_count"])),
            ("Blockers of a switchover then", count(scope["blockers"])),
        ),
    )


def _steps(steps: Sequence[Mapping[str, Any]]) -> Sheet:
    return Sheet(
        "Steps",
        tuple(
            (
                step["does"],
                step["state"],
                _time(step["started_at"]),
                _took(step["started_at"], step["ended_at"]),
                step["reason"],
            )
            for step in steps
        ),
        ("Step", "State", "Began", "Took", "Result"),
    )


def _left_behind(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sheet]:
    """What decisions leave on the source, with the amount, who decided and why."""
    if rows:
        names = (
            row["topic"] if row["partition"] is None else f"{row['topic']}-{row['partition']}"
            for row in rows
        )
        lines = zip(names, (row["sentence"] for row in rows), strict=True)
        yield Sheet("Left behind by decision", tuple(lines))


def _people(people: Sequence[Mapping[str, Any]]) -> Sheet:
    return Sheet("People", tuple((row["who"], row["did"]) for row in people))


def _seal(document: Mapping[str, Any]) -> Sheet:
    evidence, key = document["evidence"], document["key"]
    return Sheet(
        "Evidence and signature",
        (
            ("Certificate", document["number"]),
            ("Issued", _time(document["issued_at"])),
            ("Evidence", evidence["of"]),
            (f"Its digest, {evidence['algorithm']}", evidence["digest"] or "there is none"),
            (f"Signed with, {key['algorithm']}", key["fingerprint"]),
            ("Signature", document["signature"]),
        ),
    )


def _cluster(cluster: Mapping[str, str] | None) -> str:
    if cluster is None:
        return UNKNOWN
    known = cluster["cluster_id"]
    return f"{cluster['alias']} (cluster id {known})" if known else cluster["alias"]


def _names(names: Sequence[str], total: int) -> str:
    more = total - len(names[:_NAMED])
    text = ", ".join(names[:_NAMED])
    return f"{count(total)}: {text}{f' and {more:,} more' if more else ''}" if total else "0"


def _time(text: str | None) -> str:
    if text is None:
        return UNKNOWN
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def _took(start: str | None, end: str | None) -> str:
    if start is None or end is None:
        return UNKNOWN
    lasted = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return duration(lasted.total_seconds() * 1000)
