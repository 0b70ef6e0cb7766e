"""Evidence of tests and recoveries in the fields of DORA (EU 2022/2554), articles 11 and 12.

Each entry is taken from one signed certificate and names it, so an auditor can verify every figure.
Nothing is more optimistic than the certificate: an amount that it does not know is null here, with
the reason, and an upper or lower bound says that it is one.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from mirrors.domain.drills.certificates.signature import DRILL

FORMAT = 1
_SCENARIOS = {
    "drill": "simulated loss of the source: plan, resume offsets and data loss, without a change",
    "switchover": "planned move of consumers and producers to the target",
    "failover": "move to the target after an unplanned loss of the source",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Later:
    """A later certificate of the same flow. `passed` of a real run: it succeeded."""

    number: str
    passed: bool
    issued_at: str


def evidence_entry(
    document: Mapping[str, Any],
    text: str,
    *,
    objectives: Mapping[str, Any],
    later: Iterable[Later] = (),
) -> dict[str, Any]:
    """One entry. `text`: the certificate as issued. `objectives`: used where it names none."""
    is_drill = document["kind"] == DRILL
    facts = _of_drill(document) if is_drill else _of_run(document, objectives)
    gaps = facts.pop("gaps")
    return {
        "certificate": {
            "number": document["number"],
            "issued_at": document["issued_at"],
            "sha256": hashlib.sha256(text.encode("ascii")).hexdigest(),
            "key": document["key"]["fingerprint"],
            "supplements": (document.get("supplements") or {}).get("number"),
        },
        "function": document["scope"]["flow"],
        "scope": {
            name: document["scope"].get(name)
            for name in ("source", "target", "topic_count", "partition_count", "group_count")
        },
        **facts,
        "result": document["result"],
        "verification": document["verification"],
        "summary": document["sentence"],
        "gaps": gaps,
        "remediation": _remediation(gaps, later),
        "people": document["people"],
        "evidence": document["evidence"],
    }


def _of_drill(document: Mapping[str, Any]) -> dict[str, Any]:
    wanted, measured = document["objectives"] or {}, document["measured"] or {}
    loss_is = measured.get("loss_is", "unknown")
    return {
        "nature": "test",
        "scenario": {"type": "drill", "description": _SCENARIOS["drill"]},
        "started_at": document["drill"]["begun_at"],
        "ended_at": document["drill"]["ended_at"],
        "rto": _objective(
            wanted.get("rto_seconds"), _seconds(measured.get("rto_ms")), measured.get("rto_why", "")
        ),
        "rpo_time": _objective(
            wanted.get("rpo_seconds"), _seconds(measured.get("rpo_ms")), measured.get("rpo_why", "")
        ),
        "rpo_records": {
            **_objective(
                wanted.get("rpo_records"), measured.get("loss"), measured.get("loss_why", "")
            ),
            "certainty": loss_is,
        },
        "gaps": [
            *(
                {"kind": "objective missed", "text": row["sentence"]}
                for row in document["breaches"]
            ),
            *({"kind": "fault", "text": text} for text in document["faults"]),
            *_left_behind(document),
            *_not_verified(document),
        ],
    }


def _of_run(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    run, totals = document["run"], document.get("counted") or document.get("totals") or {}
    certainty = totals.get("loss_certainty", "unknown")
    loss = None if certainty == "unknown" else totals.get("loss")
    why = "" if loss is not None else "No count of the lost records is known."
    gaps = list(_left_behind(document))
    if loss:
        gaps.append({"kind": "data loss", "text": document["sentence"]})
    gaps += _not_verified(document)
    return {
        "nature": "test" if run["kind"] == "switchover" else "recovery",
        "scenario": {"type": run["kind"], "description": _SCENARIOS[run["kind"]]},
        "started_at": run["begun_at"],
        "ended_at": run["ended_at"],
        # A run does not say when its consumers had resumed, only when its last step ended.
        "rto": _objective(
            wanted.get("rto_seconds"), None, "See started_at and ended_at of the run's steps."
        ),
        "rpo_time": _objective(
            wanted.get("rpo_seconds"), None, "A run counts records, not their age."
        ),
        "rpo_records": {
            **_objective(wanted.get("rpo_records"), loss, why),
            "certainty": certainty,
        },
        "gaps": gaps,
    }


def _not_verified(document: Mapping[str, Any]) -> Iterable[dict[str, str]]:
    """Such as topics with rules on records, whose copies differ from the source."""
    found = document["verification"]
    if found["result"] in ("partly_verified", "not_verified"):
        yield {"kind": found["result"].replace("_", " "), "text": found["reason"]}


def _left_behind(document: Mapping[str, Any]) -> Iterable[dict[str, str]]:
    for row in document.get("left_behind") or ():
        yield {"kind": "left behind by decision", "text": str(row.get("sentence", row))}


def _objective(wanted: int | None, achieved: float | None, why: str) -> dict[str, Any]:
    met = None if wanted is None or achieved is None else achieved <= wanted
    return {
        "wanted": wanted,
        "achieved": achieved,
        "met": met,
        "why_unknown": "" if achieved is not None else why or "Not measured.",
    }


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _remediation(gaps: list[dict[str, str]], later: Iterable[Later]) -> dict[str, Any]:
    """A later certificate that passed. The measures themselves are kept elsewhere."""
    if not gaps:
        return {"state": "none needed", "confirmed_by": None, "confirmed_at": None}
    for one in sorted(later, key=lambda row: row.issued_at):
        if one.passed:
            return {
                "state": "confirmed",
                "confirmed_by": one.number,
                "confirmed_at": one.issued_at,
            }
    return {"state": "open", "confirmed_by": None, "confirmed_at": None}
