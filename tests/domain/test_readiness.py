"""The readiness score: each term changes it as documented, and every lost point has a reason."""

from __future__ import annotations

import dataclasses
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.drills.objectives import Objectives
from mirrors.domain.drills.proof import DrillProof, LastDrills, last_proven
from mirrors.domain.drills.readiness import ReadinessFacts, Term, readiness
from tests.domain.cases import laws

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
MONTH = timedelta(days=30)
DOCUMENT = Path(__file__).parents[2] / "docs" / "readiness.md"


def proof(**facts: Any) -> DrillProof:
    usual = {"passed_at": NOW - timedelta(days=3), "ended_at": NOW - timedelta(days=3)}
    last = LastDrills(**{**usual, "ended_well": True, **facts})
    return last_proven(last, now=NOW, stale_after=MONTH)


PERFECT = ReadinessFacts(
    state="running",
    figures_age=timedelta(seconds=1),
    target="backup",
    target_reachable=True,
    offset_lag=0,
    time_lag_ms=0,
    objectives=Objectives(rpo_seconds=30, rto_seconds=60),
    places=8,
    translated=8,
    proven=proof(),
)


def term(name: str, **facts: Any) -> Term:
    found = readiness(dataclasses.replace(PERFECT, **facts))
    others = [one for one in found.terms if one.name != name]
    assert found.score == sum(one.points for one in found.terms)
    assert all(not one.lost for one in others if not facts.keys() & {"state", "figures_age"})
    return next(one for one in found.terms if one.name == name)


def test_a_perfect_standby_has_100_points_and_nothing_to_mend() -> None:
    found = readiness(PERFECT)
    assert found.score == 100
    assert sum(one.most for one in found.terms) == 100
    assert all((one.sentence, one.fix) == ("", None) for one in found.terms)


@pytest.mark.parametrize(
    ("name", "facts", "points", "fix", "words"),
    [
        ("drill", {"proven": proof(passed_at=None, ended_at=None)}, 0, "drill", "No drill"),
        ("drill", {"proven": proof(passed_at=NOW - 2 * MONTH)}, 0, "drill", "60 d ago"),
        ("drill", {"proven": proof(ended_well=False, reason="RPO.")}, 0, "drills", "failed: RPO."),
        ("rpo", {"offset_lag": 5, "time_lag_ms": 30_000}, 15, None, ""),
        ("rpo", {"offset_lag": 5, "time_lag_ms": 45_000}, 7, "topics", "45 s behind"),
        ("rpo", {"offset_lag": 5, "time_lag_ms": 60_000}, 0, "topics", "objective is 30 s"),
        ("rpo", {"offset_lag": None}, 0, "topics", "unknown"),
        ("rpo", {"offset_lag": 5, "time_lag_ms": None}, 0, "topics", "unknown"),
        ("groups", {"translated": 6}, 7, "groups", "2 of 8 group-partitions"),
        ("groups", {"translated": 0}, 0, "groups", "8 of 8 group-partitions"),
        ("groups", {"places": 0, "translated": 0}, 10, None, ""),
        ("topics", {"not_copied": 2, "not_copied_first": "a"}, 0, "topics", "2 topics not"),
        ("topics", {"not_visible": "No topic is visible."}, 0, "topics", "No topic is visible."),
        ("rights", {"lacking": ("ben lacks ALTER.",)}, 0, "simulation", "ben lacks ALTER."),
        (
            "rights",
            {"lacking": None},
            0,
            "simulation",
            "Whether permissions are missing is unknown",
        ),
        ("drift", {"drift": 1, "drift_first": "orders"}, 0, "drift", "decision: orders."),
        ("schemas", {"schemas": "One is missing."}, 0, "schemas", "One is missing."),
        ("foreign_writes", {"foreign_records": 7}, 0, "gaps", "7 records"),
        ("target", {"dead_addresses": ("b:1 is dead.",)}, 2, "cluster", "b:1 is dead."),
        (
            "target",
            {"dead_addresses": ("a:1 is dead.",), "source_warned": True},
            2,
            "source",
            "a:1 is dead.",
        ),
        ("target", {"source_reachable": False}, 2, "source", "the source did not respond"),
        ("rpo", {"offset_lag": None}, 0, "topics", "or the source was not read lately"),
        ("copies", {"state": "degraded", "reason": "Two."}, 0, "jobs", "degraded: Two."),
        ("copies", {"figures_age": timedelta(minutes=1)}, 0, "jobs", "no current figures"),
        ("copies", {"figures_age": None}, 0, "jobs", "no current figures"),
        ("target", {"target_reachable": False, "target_reason": "No."}, 0, "cluster", "last check"),
        ("target", {"target_reachable": None}, 0, "cluster", "backup was never checked"),
        ("gaps", {"open_gaps": 1}, 0, "gaps", "Data loss detected: 1 gap waits"),
        ("duties", {"failed_duties": (("acls", "No."),)}, 0, "duties", "1 sync task failed"),
        ("objectives", {"objectives": Objectives(rpo_records=9)}, 0, "objectives", "no RTO"),
        ("objectives", {"objectives": Objectives(rto_seconds=9)}, 0, "objectives", "no RPO"),
        ("objectives", {"objectives": Objectives()}, 0, "objectives", "no RPO and no RTO"),
    ],
)
def test_each_term_moves_the_score_as_documented(
    name: str, facts: dict[str, Any], points: int, fix: str | None, words: str
) -> None:
    found = term(name, **facts)
    assert (found.points, found.fix) == (points, fix)
    assert words in found.sentence
    assert bool(found.sentence) == bool(found.lost)


def test_a_time_lag_that_may_be_longer_says_so() -> None:
    found = term("rpo", offset_lag=5, time_lag_ms=45_000, is_lag_least=True)
    assert "The flow is at least 45 s behind" in found.sentence


def test_the_worse_of_both_rpo_objectives_counts() -> None:
    both = Objectives(rpo_seconds=60, rpo_records=100, rto_seconds=1)
    found = term("rpo", objectives=both, offset_lag=175, time_lag_ms=1_000)
    assert found.points == 3
    assert "175 records behind; its objective is 100" in found.sentence
    strict = Objectives(rpo_records=0, rto_seconds=1)
    assert term("rpo", objectives=strict, offset_lag=1, time_lag_ms=1).points == 0
    assert term("rpo", objectives=strict, offset_lag=0).points == 15


@laws
@given(
    st.builds(
        ReadinessFacts,
        state=st.sampled_from(["running", "paused", "failed", "draft"]),
        figures_age=st.none() | st.timedeltas(timedelta(), timedelta(days=2)),
        target_reachable=st.none() | st.booleans(),
        offset_lag=st.none() | st.integers(0, 10**12),
        time_lag_ms=st.none() | st.integers(0, 10**12),
        objectives=st.builds(
            Objectives,
            rpo_seconds=st.none() | st.integers(0, 100),
            rpo_records=st.none() | st.integers(0, 100),
            rto_seconds=st.none() | st.integers(1, 100),
        ),
        places=st.just(10),
        translated=st.integers(0, 10),
        open_gaps=st.integers(0, 3),
        dead_addresses=st.just(()) | st.just(("b:1 is dead.",)),
        not_copied=st.integers(0, 2),
        not_visible=st.sampled_from(["", "Hidden."]),
        lacking=st.none() | st.just(()) | st.just(("ben lacks ALTER.",)),
        drift=st.integers(0, 2),
        foreign_records=st.integers(0, 2),
        failed_duties=st.just(()) | st.just((("x", "y"),)),
        proven=st.sampled_from([proof(), proof(ended_well=False), proof(passed_at=None)]),
    )
)
def test_any_picture_has_0_to_100_points_and_every_lost_one_a_sentence_and_a_mend(
    picture: ReadinessFacts,
) -> None:
    found = readiness(picture)
    assert 0 <= found.score <= 100
    for one in found.terms:
        assert 0 <= one.points <= one.most
        assert bool(one.lost) == bool(one.sentence) == (one.fix is not None)


def test_the_document_publishes_every_term_with_its_weight() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", DOCUMENT.read_text(encoding="utf-8"), re.M)
    assert dict(rows) == {one.name: str(one.most) for one in readiness(PERFECT).terms}


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        ({}, "proven", "passed 3 d ago"),
        ({"passed_at": NOW - 2 * MONTH}, "stale", "which is out of date after 30 days"),
        ({"ended_well": False, "reason": "RPO."}, "failed", "failed: RPO. The last drill that"),
        ({"passed_at": None, "ended_at": None}, "never", "Schedule one"),
        ({"passed_at": None, "ended_at": None, "scheduled": True}, "never", "No drill has ended"),
        ({"passed_at": None}, "never", "for some groups only"),
    ],
)
def test_the_last_proof_says_since_when_or_why_it_is_none(
    facts: dict[str, Any], state: str, words: str
) -> None:
    found = proof(**facts)
    assert found.state == state
    assert words in found.sentence
