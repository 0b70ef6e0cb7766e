"""The judge's own test: it finds planted statements that are too optimistic, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.domain.test_readiness import term
from tests.judge.ledger import (
    ASKED_WITHIN_MS,
    SHOWN_WITHIN_MS,
    Bounds,
    Ledger,
    Record,
    TargetReading,
)
from tests.judge.statements import (
    age_of,
    drain_claims,
    flow_page_claims,
    headline_claims,
    headline_of,
    metric_claims,
    readiness_claims,
    sentence_claims,
)
from tests.judge.verdicts import (
    Certainty,
    Claim,
    Orphans,
    Resume,
    judge_amount,
    judge_copies,
    judge_interval,
    judge_orphans,
    judge_resume,
    judge_time_lag,
    judge_unknown,
)

LATE = 1_000_000
counts = st.integers(0, 50)


def claim(records: int | None, certainty: Certainty, **more: object) -> Claim:
    return Claim(statement="it", records=records, certainty=certainty, as_of=LATE, **more)  # type: ignore[arg-type]


def kept(written: int, copied: int, *, aborted: int = 0) -> Ledger:
    """A topic with `written` committed records, of which the first `copied` are replicated."""
    ledger = Ledger("s.")
    records = ledger.create("t", 1, 0).partitions[0]
    for number in range(written + aborted):
        visible = None if number >= written else 1
        records.append(Record(number, f"v{number}", 1, visible))
    values = {f"v{number}" for number in range(copied)}
    ledger.looks.append(TargetReading(LATE - 1, {("s.t", 0): values}))
    return ledger


@given(written=counts, copied=counts, aborted=counts, short=st.integers(1, 10))
def test_a_statement_that_is_too_good_by_one_record_is_found(
    written: int, copied: int, aborted: int, short: int
) -> None:
    owed = max(0, written - copied)
    truth = kept(written, min(copied, written), aborted=aborted).owed(LATE)
    assert truth == (owed, owed)
    for certainty in ("counted", "at_most"):
        found = judge_amount(claim(owed - short, certainty), truth)  # type: ignore[arg-type]
        assert found is not None
        assert found.kind == "too_good"
    for certainty in ("counted", "at_least"):
        found = judge_amount(claim(owed + short, certainty), truth)  # type: ignore[arg-type]
        assert found is not None
        assert found.kind == "untrue"


@given(written=counts, copied=counts, slack=st.integers(0, 10))
def test_a_true_statement_is_never_found(written: int, copied: int, slack: int) -> None:
    owed = max(0, written - copied)
    truth = kept(written, min(copied, written)).owed(LATE)
    for said in (
        claim(owed, "counted"),
        claim(owed + slack, "at_most"),
        claim(max(0, owed - slack), "at_least"),
        claim(None, "unknown"),
    ):
        assert judge_amount(said, truth) is None


def test_a_lower_bound_far_below_what_was_owed_is_vague() -> None:
    assert judge_interval(claim(90, "at_least"), Bounds(100, 100)) is None
    vague = judge_interval(claim(89, "at_least"), Bounds(100, 100))
    assert vague is not None
    assert vague.kind == "vague"
    assert judge_interval(claim(0, "counted"), Bounds(0, 0)) is None


def test_what_was_produced_after_the_moment_of_a_statement_is_not_held_against_it() -> None:
    ledger = kept(3, 3)
    ledger.living()[0].partitions[0].append(Record(3, "new", LATE + 1, LATE + 1))
    assert ledger.owed(LATE).least == 0
    assert ledger.owed(LATE + ASKED_WITHIN_MS + 1).least == 1


def test_a_recreated_topic_owes_all_that_it_holds_now() -> None:
    ledger = kept(5, 5)
    ledger.delete("t", LATE)
    ledger.create("t", 1, LATE).partitions[0].append(Record(0, "other", LATE, LATE))
    assert ledger.owed(LATE + SHOWN_WITHIN_MS - 1).least == 0
    assert ledger.owed(LATE + SHOWN_WITHIN_MS) == (1, 1)


def test_what_the_source_deleted_is_not_owed_any_more() -> None:
    ledger = kept(5, 2)
    ledger.truncate("t", 0, 4, LATE)
    assert ledger.owed(LATE + ASKED_WITHIN_MS).least == 1


def test_copies_that_the_target_lost_are_owed_again() -> None:
    ledger = kept(5, 5)
    ledger.lose_copies(LATE)
    ledger.looks.append(TargetReading(LATE + 1, {}))
    assert ledger.owed(LATE + SHOWN_WITHIN_MS + 1) == (5, 5)


def test_a_time_lag_of_0_is_too_good_while_an_old_record_is_owed() -> None:
    assert judge_time_lag(claim(1, "at_most", time_lag_ms=0), LATE - 60_000) is not None
    assert judge_time_lag(claim(1, "at_most", time_lag_ms=60_000), LATE - 60_000) is None
    assert judge_time_lag(claim(0, "counted", time_lag_ms=0), None) is None


def test_unknown_without_a_cause_is_found_beyond_two_percent() -> None:
    good = [claim(0, "counted", topic=f"t{number}") for number in range(99)]
    assert judge_unknown([*good, claim(None, "unknown", topic="x")], ()) is None
    bad = [*good[:20], claim(None, "unknown", topic="x")]
    assert judge_unknown(bad, ()) is not None
    assert judge_unknown(bad, ("x",)) is None


def resume(downstream: int, **more: object) -> Resume:
    facts: dict[str, object] = {
        "statement": "g in t-0",
        "re_reads": 0,
        "skipped": 0,
        "copies": [(0, "a"), (1, "b"), (3, "c")],
        "consumed": frozenset({"a", "b"}),
        "held": frozenset({"a", "b", "c"}),
    }
    return Resume(downstream=downstream, **{**facts, **more})  # type: ignore[arg-type]


def test_a_group_that_skips_a_record_or_reads_one_again_unsaid_is_found() -> None:
    assert judge_resume(resume(2)) is None
    assert judge_resume(resume(3)) is None
    skips = judge_resume(resume(4))
    assert skips is not None
    assert skips.kind == "wrong_resume"
    again = judge_resume(resume(1))
    assert again is not None
    assert again.kind == "too_good"
    assert judge_resume(resume(1, re_reads=1)) is None
    assert judge_resume(resume(1, re_reads=None)) is None


def test_the_judge_shares_no_code_with_the_product() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        found = re.findall(
            r"^(?:from|import) (mirrors|monitoring|spark_runner)\b", path.read_text(), re.M
        )
        assert not found, f"{path.name} imports {found}"


def test_an_orphan_that_is_forgotten_or_invented_is_found() -> None:
    def found(records: int, certainty: Certainty) -> str:
        row = Orphans(place="t-0", records=records, certainty=certainty, counted=7)
        finding = judge_orphans(row)
        return finding.kind if finding else ""

    assert [found(n, "counted") for n in (6, 7, 8)] == ["too_good", "", "untrue"]
    assert [found(n, "at_most") for n in (6, 7, 8)] == ["too_good", "", ""]


def test_a_replayed_record_is_there_once_and_a_dropped_one_is_not() -> None:
    assert judge_copies("t-0", ["a", "b"], ["x", "a", "b"], 1) is None
    assert judge_copies("t-0", ["a", "b"], ["x", "a"], 1) is not None
    assert judge_copies("t-0", ["a"], ["a", "a"], 1) is not None
    assert judge_copies("t-0", ["a"], ["x"], 0) is None
    assert judge_copies("t-0", ["a"], ["a"], 0) is not None


def test_while_the_target_is_away_what_was_sent_after_its_death_is_owed() -> None:
    ledger = kept(10, 0)
    ledger.target_died(LATE - 20_000)
    records = ledger.topics["t"][0].partitions[0]
    records.append(Record(10, "v10", LATE - 10_000, LATE - 10_000))
    # Of what was sent before, all may have been copied, or nothing.
    assert ledger.owed(LATE) == (1, 11)
    assert judge_amount(claim(0, "at_most"), ledger.owed(LATE)) is not None
    assert judge_amount(claim(1, "at_most"), ledger.owed(LATE)) is None
    # A figure that says its age is older than the death.
    assert judge_amount(claim(0, "at_most"), ledger.owed(LATE - 15_000)) is None


def said(text: str) -> list[tuple[int | None, str, int]]:
    claims = sentence_claims("page", text, as_of=LATE)
    return [(one.records, one.certainty, LATE - one.as_of) for one in claims]


def test_sentences_are_read_as_a_person_reads_them() -> None:
    assert said("If s fails now: no data loss (checked 2 s ago).") == [(0, "counted", 2_000)]
    assert said("Everything was replicated in 3 partitions. No records were lost.") == [
        (0, "counted", 0),
        (0, "counted", 0),
    ]
    assert said("At most 1,204 records would be lost.") == [(1204, "at_most", 0)]
    assert said("At least 2,485 records were lost (source last seen 1 min 9 s ago).") == [
        (2485, "at_least", 0)
    ]
    assert said("If s fails now: loss unknown, no figures.") == [(None, "unknown", 0)]
    assert said("If s fails now, 36 records at most would be lost.") == [(36, "at_most", 0)]
    assert said("114 records would be lost.") == [(114, "counted", 0)]
    assert said("9,913 records would be re-read.") == []
    assert said("All 7 group-partitions resume at the correct record.") == []


def test_each_sentence_of_the_overview_is_read_for_its_sources() -> None:
    sentences = (
        "If s1 fails now: at most 12 records lost (oldest 3 s, mostly a). s1→t",
        "s2 is unreachable: at least 4 records not replicated (seen 1 min ago). s2→t",
        "If s3 fails now: unknown data loss (no metrics from s3→t yet). s3→t",
        "If s4, s5 or one of 2 more fails now: no data loss (checked 2 s ago).",
    )
    found = {
        alias: [claim for text in sentences for claim in headline_claims(text, alias)]
        for alias in ("s1", "s2", "s3", "s4", "s5", "s9")
    }
    assert [(one.records, one.certainty) for one in found["s1"]] == [(12, "at_most")]
    assert [(one.records, one.certainty) for one in found["s2"]] == [(4, "at_least")]
    assert [(one.records, one.certainty) for one in found["s3"]] == [(None, "unknown")]
    assert [(one.records, one.certainty) for one in found["s4"]] == [(0, "counted")]
    assert [(one.records, one.certainty) for one in found["s5"]] == [(0, "counted")]
    assert found["s9"] == []


def test_an_age_and_the_headline_are_found_on_a_page() -> None:
    assert age_of("checked 2 h ago") == 7_200_000
    assert age_of("no age") == 0
    page = """<section class="verdict" aria-label="Summary"><h1><span data-state="good"></span>
      The only flow is healthy</h1><p>If a fails now: no data loss. <a href="/x">Never proven.</a>
      </p><ul><li><strong>b</strong> waits.</li></ul></section>"""
    assert headline_of(page) == (
        "good",
        "The only flow is healthy",
        ["If a fails now: no data loss. Never proven.", "b waits."],
    )


def test_a_metric_speaks_of_the_moment_of_its_figures() -> None:
    text = (
        'understudy_flow_offset_lag_records{flow="a->b",source="a"} 7\n'
        'understudy_flow_offset_lag_records{flow="b->a",source="b"} 9\n'
        'understudy_flow_source_seen_age_seconds{flow="a->b",source="a"} 3\n'
        'understudy_partition_offset_lag_records{flow="a->b",topic="t",partition="0"} 5\n'
    )
    found = list(metric_claims(text, "a->b"))
    assert [(one.records, one.topic, one.partition) for one in found] == [
        (7, None, None),
        (5, "t", 0),
    ]
    assert judge_amount(found[0], Bounds(8, 8)) is not None


def test_the_figures_at_the_head_of_a_flows_page_are_read() -> None:
    page = (
        '<dt>Not replicated</dt><dd class="old">'
        '<span title="at least 2,485 records (seen 40 s ago)">'
        "≥ 2,485</span></dd><dt>RPO</dt>"
        '<dd><span title="3,050 ms">3.1 s</span></dd>'
    )
    [found] = flow_page_claims(page, LATE)
    assert (found.records, found.certainty, found.time_lag_ms) == (2_485, "at_least", 3_050)
    assert judge_amount(found, Bounds(2_000, 2_484)) is not None
    unknown = page.replace("≥ 2,485", "\N{EN DASH}").replace("3,050 ms", "not known")
    [found] = flow_page_claims(unknown, LATE)
    assert (found.records, found.certainty, found.time_lag_ms) == (None, "unknown", None)
    [found] = flow_page_claims(page.replace("≥ 2,485", "7"), LATE)
    too_good = judge_amount(found, Bounds(8, 8))
    assert too_good is not None
    assert too_good.kind == "too_good"


def test_readiness_speaks_of_an_age() -> None:
    # The product's own sentences: the judge must not miss them when they change.
    known = term("rpo", offset_lag=5, time_lag_ms=125_000)
    least = term("rpo", offset_lag=5, time_lag_ms=125_000, is_lag_least=True)
    terms = [
        {"title": "RPO", "sentence": known.sentence},
        {"title": "RPO", "sentence": least.sentence},
        {"title": "Drift", "sentence": ""},
    ]
    found = list(readiness_claims(terms, LATE))
    assert [(one.records, one.time_lag_ms, one.is_lag_least) for one in found] == [
        (None, 125_000, False),
        (None, 125_000, True),
    ]


def test_a_drain_speaks_of_each_partition_that_it_does_not_except() -> None:
    step = {
        "reason": "Everything was replicated in 2 partitions. Unknown for 1: b-0: denied.",
        "ended_at": "2026-11-26T00:00:00+00:00",
    }
    found = list(drain_claims("switchover", step, [("a", 0), ("a", 1), ("b", 0)]))
    assert [(claim.topic, claim.partition, claim.records) for claim in found] == [
        ("a", 0, 0),
        ("a", 1, 0),
    ]
    assert list(drain_claims("failover", {**step, "reason": "It is stopped."}, [("a", 0)])) == []


def test_a_lower_bound_may_hold_what_was_seen_after_its_oldest_observation() -> None:
    ledger = kept(10, 0)
    late = ledger.topics["t"][0].partitions[0]
    late.append(Record(10, "v10", LATE + 20_000, LATE + 20_000))
    ledger.looks.append(TargetReading(LATE + 30_000, {}))
    assert ledger.owed_until(LATE, LATE, "t") == (10, 10)
    assert ledger.owed_until(LATE, LATE + 30_000, "t") == (10, 11)
    said = claim(11, "at_least")
    assert judge_amount(said, ledger.owed_until(LATE, LATE + 30_000)) is None
