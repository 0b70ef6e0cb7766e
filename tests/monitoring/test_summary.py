"""The overview's headline: it names what is wrong and promises nothing from stale figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrors.domain.account.partition import PartitionFacts, evaluate
from mirrors.domain.account.totals import total
from monitoring.domain.overview.data_loss import (
    FlowSummary,
    WorstLoss,
    worst_by_source,
    worst_loss,
)
from monitoring.domain.overview.summary import (
    Counts,
    FlowProblem,
    Summary,
    is_stale,
    summarize,
    tone,
)
from tests.account_rows import owing

NOW = datetime(2026, 11, 21, 2, 14, tzinfo=UTC)
STATES = ["draft", "starting", "running", "degraded", "backing_off"]
STATES += ["paused", "stopped", "failed", "failed_over"]
FRESH = NOW - timedelta(seconds=2)


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def flow(name: str = "east->west", **changes: object) -> FlowSummary:
    """`owes`, `lag_ms` and `unknown` make its account."""
    seen = changes.get("as_of", FRESH)
    owes = {"records": changes.pop("owes", 0), "lag_ms": changes.pop("lag_ms", 0)}
    made = owing(
        **owes,
        seen=ms(seen or FRESH),  # type: ignore[arg-type]
        unknown=changes.pop("unknown", 0),
    )  # type: ignore[arg-type]
    facts: dict[str, object] = {
        "name": name,
        "source": name.split("->")[0],
        "target": name.split("->")[1],
        "state": "running",
        "account": made if seen else None,
        "as_of": FRESH,
    }
    return FlowSummary(**{**facts, **changes})  # type: ignore[arg-type]


def said(summary: Summary) -> str:
    return " ".join(loss.sentence for loss in summary.losses)


def test_no_flow_yet() -> None:
    assert summarize([], NOW).headline == "Nothing is replicated yet"


def test_all_well_says_so_and_what_would_be_lost() -> None:
    summary = summarize([flow(), flow("west->east")], NOW)
    assert summary.tone == "good"
    assert summary.headline == "Both flows are healthy"
    assert said(summary) == "If east or west fails now: no data loss (checked 2 s ago)."
    assert summary.worst == WorstLoss(
        rpo_ms=0, is_least=False, rpo_flow="west->east", records="0 records", flow=""
    )


def test_an_amount_that_was_not_observed_just_now_says_when() -> None:
    """A source that failed 20 s ago may hold more than was seen before."""
    seen = flow(owes=35, lag_ms=32_000, as_of=NOW - timedelta(seconds=20))
    assert said(summarize([seen], NOW)) == (
        "If east fails now: at most 35 records lost (seen 20 s ago, oldest 32 s)."
    )


def test_a_flow_that_is_behind_is_the_headline() -> None:
    behind = flow(owes=4112, lag_ms=38_000, worst_topic="payments")
    summary = summarize([flow("west->east"), behind, flow("west->lake", state="paused")], NOW)
    assert summary.tone == "attention"
    assert summary.headline == "1 of 3 flows needs attention"
    assert said(summary) == (
        "If east fails now: at most 4,112 records lost (oldest 38 s, mostly payments). "
        "If west fails now: no data loss (checked 2 s ago)."
    )
    assert summary.counts == Counts(healthy=1, attention=1, stopped=1)
    assert summary.worst == WorstLoss(
        rpo_ms=38_000,
        is_least=False,
        rpo_flow="east->west",
        records="at most 4,112 records",
        flow="east->west",
    )
    assert summary.troubles == (FlowProblem("east->west", "is 38 s behind."),)
    assert summary.not_running == "west→lake is paused."


def test_what_fires_of_a_flow_makes_it_a_trouble_also_while_it_rests() -> None:
    fires = {"severity": "critical", "alert": "has 1 gap that waits"}
    paused = flow(state="paused", owes=4112, lag_ms=540_000, **fires)
    summary = summarize([paused, flow("west->east")], NOW)
    assert (summary.tone, summary.headline) == ("critical", "1 of 2 flows needs attention")
    sentence = "is paused; it has 1 gap that waits."
    assert summary.troubles == (FlowProblem("east->west", sentence),)
    assert summary.not_running == ""
    lags = flow(state="paused", owes=4112, lag_ms=541_000, severity="warning")
    assert summarize([lags], NOW).troubles[0].sentence == "is paused; it is 9 min 1 s behind."
    runs = flow(severity="warning", alert="wrote its last checkpoint 12 min ago")
    summary = summarize([runs], NOW)
    assert summary.tone == "attention"
    assert summary.troubles[0].sentence == "wrote its last checkpoint 12 min ago."
    grave = summarize([flow(state="failed", severity="warning", alert="is 1 min behind")], NOW)
    assert grave.tone == "critical"


def test_what_was_written_since_the_last_look_is_not_promised() -> None:
    seen = [flow(as_of=NOW - timedelta(seconds=age)) for age in (0.4, 2.2)]
    seen[1] = seen[1]._replace(name="west->east", source="west")
    assert said(summarize(seen, NOW)) == (
        "If east or west fails now: no data loss (checked 3 s ago)."
    )


def test_of_two_flows_of_a_source_the_one_seen_longer_ago_says_when() -> None:
    fresh, older = (flow(as_of=NOW - timedelta(seconds=age)) for age in (1, 9))
    older = older._replace(name="east->north")
    old = "If east fails now: no data loss (checked 9 s ago)."
    assert said(summarize([fresh, older], NOW)) == old
    assert said(summarize([older, fresh], NOW)) == old


def test_of_a_source_that_is_unreachable_only_a_lower_bound_is_known() -> None:
    gone = flow(owes=663, lag_ms=214_000, worst_topic="clicks", source_unreachable=True)
    summary = summarize([gone], NOW)
    assert said(summary) == (
        "east is unreachable: at least 663 records not replicated (seen 2 s ago, "
        "oldest at least 3 min 34 s, mostly clicks)."
    )
    assert summary.worst is not None
    assert (summary.worst.rpo_ms, summary.worst.is_least) == (214_000, True)
    assert summary.tone == "critical"
    assert summary.troubles[0].sentence == "reads from east, which is unreachable."
    empty = summarize([flow(source_unreachable=True), flow("west->east")], NOW)
    assert said(empty) == (
        "If east fails now: unknown data loss (unreachable, in sync 2 s ago). "
        "If west fails now: no data loss (checked 2 s ago)."
    )
    assert empty.worst is not None
    assert empty.worst.rpo_ms is None


def test_unreachable_clusters_of_flows_in_trouble_are_the_cause() -> None:
    broken = flow(
        state="degraded", reason="Cluster west: no response in time.", target_unreachable=True
    )
    summary = summarize([broken, flow("west->east")], NOW)
    assert summary.headline == "1 of 2 flows needs attention: west is unreachable"
    more = flow("north->lake", source_unreachable=True, target_unreachable=True)
    assert summarize([broken, more], NOW).headline.endswith(": 3 clusters are unreachable")
    # What no flow in trouble uses is not in the headline.
    rests = flow("lake->east", state="stopped", source_unreachable=True)
    assert summarize([broken, rests], NOW).headline.endswith(": west is unreachable")
    assert summarize([flow()], NOW).headline == "The only flow is healthy"


def test_a_known_loss_is_named_however_many_are_unknown() -> None:
    """14 flows in all states: the known loss first, failed-over flows folded and last."""
    flows = [flow(f"s{number}->t", as_of=None, state="stopped") for number in range(5)]
    flows += [flow(f"f{number}->t", as_of=None, state="failed_over") for number in range(6)]
    flows += [flow("east->west", owes=9, lag_ms=2_000, worst_topic="orders"), flow("lake->east")]
    flows += [
        flow("south->west", owes=7, unknown=3, state="stopped", as_of=NOW - timedelta(hours=2))
    ]
    summary = summarize(flows, NOW)
    assert said(summary) == (
        "If east fails now: at most 9 records lost (oldest 2 s, mostly orders). "
        "If south fails now: at least 7 records lost (seen 2 h ago, unknown for 3 partitions). "
        "If s0 fails now: unknown data loss (no metrics from s0→t yet). "
        "If s1 fails now: unknown data loss (no metrics from s1→t yet). "
        "If s2 fails now: unknown data loss (no metrics from s2→t yet). "
        "Unknown data loss for 2 more sources. "
        "If lake fails now: no data loss (checked 2 s ago)."
    )
    assert summary.not_running == (
        "6 flows are paused, stopped or drafts. Not replicated: south→west at least 7 records; "
        "unknown for 3 partitions of hidden (seen 2 h ago). 6 flows were failed over."
    )
    assert {row.state for row in summarize(flows, NOW).ordered[-6:]} == {"failed_over"}


def test_an_unknown_part_is_said_beside_what_is_known() -> None:
    summary = summarize([flow(owes=2485, lag_ms=40_000, unknown=3)], NOW)
    assert summary.tone == "attention"
    sentence = "is 40 s behind: at least 2,485 records; unknown for 3 partitions of hidden."
    assert summary.troubles == (FlowProblem("east->west", sentence),)


def test_what_a_degraded_flow_owes_is_as_sure_as_its_source_is_fresh() -> None:
    summary = summarize([flow(state="degraded", owes=9, lag_ms=2_000), flow("west->east")], NOW)
    assert said(summary) == (
        "If east fails now: at most 9 records lost (oldest 2 s). "
        "If west fails now: no data loss (checked 2 s ago)."
    )
    unread = owing(0, seen=ms(NOW - timedelta(seconds=40)))
    summary = summarize([flow(state="degraded", account=unread), flow("west->east")], NOW)
    assert said(summary) == (
        "If east fails now: unknown data loss (no metrics from east→west for 40 s). "
        "If west fails now: no data loss (checked 2 s ago)."
    )


def test_a_flow_that_starts_is_not_called_healthy_yet() -> None:
    begins = flow(state="starting", owes=None)
    both = summarize([begins, flow("west->east", state="starting", owes=None)], NOW)
    assert (both.tone, both.headline) == ("starting", "Both flows are starting")
    assert {loss.kind for loss in both.losses} == {"unknown"}
    one = summarize([begins, flow("west->east")], NOW)
    assert (one.tone, one.headline) == ("starting", "1 of 2 flows is starting")
    worse = summarize([begins, flow("west->east", state="failed")], NOW)
    assert worse.headline == "1 of 2 flows needs attention"


def test_a_failed_flow_is_critical_and_says_why() -> None:
    failed = flow(state="failed", reason="orders-3: record of 2 MB is too large for backup.")
    summary = summarize([failed], NOW)
    assert summary.tone == "critical"
    assert summary.headline == "The only flow needs attention"
    sentence = "is failed: orders-3: record of 2 MB is too large for backup."
    assert summary.troubles == (FlowProblem("east->west", sentence, by_state=True),)


def test_old_figures_promise_nothing() -> None:
    old = flow(as_of=NOW - timedelta(minutes=2))
    summary = summarize([old], NOW)
    assert summary.tone == "unknown"
    assert said(summary) == (
        "If east fails now: unknown data loss (no metrics from east→west for 2 min)."
    )
    assert "is its runner running?" in summary.troubles[0].sentence


def test_a_flow_that_never_reported_promises_nothing() -> None:
    summary = summarize([flow(state="starting", as_of=None)], NOW)
    assert said(summary) == (
        "If east fails now: unknown data loss (no metrics from east→west yet)."
    )


def test_flows_at_rest_are_named_but_are_no_trouble() -> None:
    summary = summarize([flow(state="paused"), flow("west->east", state="stopped")], NOW)
    assert summary.tone == "resting"
    assert summary.headline == "Both flows are stopped or paused"
    assert summary.not_running == "east→west is paused. west→east is stopped."
    mixed = summarize([flow(), flow("west->east", state="stopped")], NOW)
    assert (mixed.tone, mixed.headline) == ("good", "1 flow healthy, 1 stopped or paused")


def test_a_paused_flow_with_old_figures_owes_at_least_those() -> None:
    summary = summarize([flow(state="paused", as_of=NOW - timedelta(hours=9), owes=18)], NOW)
    assert said(summary).startswith("If east fails now: at least 18 records lost (seen 9 h ago")
    assert (
        summary.not_running
        == "east→west is paused; not replicated: at least 18 records (seen 9 h ago)."
    )


def test_silent_processes_of_ours_are_named_with_what_that_means() -> None:
    assert summarize([flow()], NOW).engine == ""
    summary = summarize([flow()], NOW, ["Celery beat", "Reconciler", "Celery worker"])
    assert summary.engine.startswith("Celery beat, Reconciler and Celery worker are missing")
    assert summarize([], NOW, ["Reconciler"]).engine.startswith("Reconciler is missing")


def test_rows_sort_by_trouble_then_by_name() -> None:
    rows = [
        flow("a->b"),
        flow("b->a", state="paused"),
        flow("c->a", owes=5, lag_ms=40_000),
        flow("d->a", state="failed"),
        flow("e->a", as_of=None),
    ]
    assert [row.name for row in summarize(rows, NOW).ordered] == [
        "d->a",
        "c->a",
        "e->a",
        "b->a",
        "a->b",
    ]


@pytest.mark.parametrize("state", ["draft", "paused", "stopped", "failed_over"])
def test_a_resting_flow_is_never_stale(state: str) -> None:
    assert not is_stale(flow(state=state, as_of=None), NOW)


pictures = st.builds(
    FlowSummary,
    name=st.sampled_from(["a->b", "b->a", "a->c", "c->a", "b->c"]),
    source=st.sampled_from(["a", "b", "c"]),
    state=st.sampled_from(STATES),
    reason=st.text(max_size=20),
    account=st.none()
    | st.builds(
        owing,
        st.none() | st.integers(0, 10**9),
        lag_ms=st.none() | st.integers(0, 10**9),
        seen=st.timedeltas(timedelta(0), timedelta(days=9)).map(lambda age: ms(NOW - age)),
        unknown=st.integers(0, 3),
    ),
    as_of=st.none() | st.timedeltas(timedelta(0), timedelta(days=9)).map(lambda age: NOW - age),
)


@given(st.lists(pictures, max_size=6, unique_by=lambda row: row.name))
def test_the_headline_is_green_only_when_no_flow_needs_a_person(rows: list[FlowSummary]) -> None:
    summary = summarize(rows, NOW)
    needy = [row for row in rows if tone(row, NOW) in {"critical", "attention", "unknown"}]
    assert (summary.tone in {"good", "resting", "starting"}) == (not needy)
    assert "starting" not in {row.state for row in rows} or summary.tone != "good"
    assert "attention" not in summary.headline or needy


@given(st.lists(pictures, min_size=1, max_size=6, unique_by=lambda row: row.name))
def test_no_loss_is_only_ever_said_of_fresh_exact_figures(rows: list[FlowSummary]) -> None:
    named = {
        source
        for loss in summarize(rows, NOW).losses
        if loss.kind == "none"
        for source in loss.sources
    }
    ours = [row for row in rows if row.source in named]
    for row in (row for row in ours if row.state not in {"draft", "failed_over"}):
        assert row.account is not None
        assert (row.account.records, row.account.unknown) == (0, 0)
        assert row.account.as_of(ms(NOW)).certainty == "counted"


@given(st.lists(pictures, min_size=1, max_size=6, unique_by=lambda row: row.name))
def test_the_greatest_known_loss_is_always_named(rows: list[FlowSummary]) -> None:
    at_risk = [row for row in rows if row.state not in {"draft", "failed_over"}]
    known = [row.total.records for row in at_risk]
    if any(known):
        assert f"{max(known):,} record" in said(summarize(rows, NOW))


@given(st.lists(pictures, max_size=6, unique_by=lambda row: row.name))
def test_the_worst_rpo_is_exact_only_if_every_account_is(rows: list[FlowSummary]) -> None:
    worst = worst_loss(rows, worst_by_source(rows, NOW), NOW)
    at_risk = [row for row in rows if row.state not in {"draft", "failed_over"}]
    assert (worst is None) == (not at_risk)
    if worst is None:
        return
    lags = [row.account.time_lag_ms for row in at_risk if row.account is not None]
    known = [lag for lag in lags if lag is not None]
    assert worst.rpo_ms in {None, max(known, default=None)}
    # Unknown is never 0.
    if worst.rpo_ms == 0:
        assert not worst.is_least
        assert not any(row.account is None or row.account.unknown for row in at_risk)


def test_an_amount_of_unknown_age_is_never_as_young_as_the_report() -> None:
    facts = PartitionFacts("orders", 0, position=0, end=33)
    rows = [flow(account=total([evaluate(facts)]))]
    assert said(summarize(rows, NOW)) == (
        "If east fails now: an unknown number of records lost (33 by offsets when "
        "last seen, at an unknown time)."
    )
    nothing = flow(account=total([evaluate(facts._replace(position=33))]))
    assert "no data loss" not in said(summarize([nothing], NOW))


def test_offsets_that_may_be_markers_are_no_lower_bound_once_they_are_old() -> None:
    """30 records in 3 transactions are at most 33 now, and never at least 33."""
    seen = NOW - timedelta(seconds=40)
    old = owing(33, seen=ms(seen), is_counted=False)
    gone = flow(account=old, source_unreachable=True)
    assert said(summarize([gone], NOW)) == (
        "east is unreachable: an unknown number of records not replicated (33 by offsets when "
        "last seen, up to 40 s ago)."
    )
    assert old.as_of(ms(NOW)).records == 0
    assert old.as_of(ms(seen)).certainty == "at_most"
