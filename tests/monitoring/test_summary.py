"""The overview's first sentence: it names what is wrong and promises nothing from old figures."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitoring.domain.losses import FlowPicture
from monitoring.domain.summary import Trouble, by_trouble, is_stale, summarise, tone

NOW = datetime(2026, 11, 21, 2, 14, tzinfo=UTC)
STATES = ["draft", "starting", "running", "degraded", "backing_off"]
STATES += ["paused", "stopped", "failed", "failed_over"]
FRESH = NOW - timedelta(seconds=2)


def flow(name: str = "east->west", **changes: object) -> FlowPicture:
    facts: dict[str, object] = {
        "name": name,
        "source": name.split("->")[0],
        "state": "running",
        "offset_lag": 0,
        "time_lag_ms": 0,
        "as_of": FRESH,
    }
    return FlowPicture(**{**facts, **changes})  # type: ignore[arg-type]


def test_no_flow_yet() -> None:
    assert summarise([], NOW).headline == "Nothing is replicated yet"


def test_all_well_says_so_and_what_would_be_lost() -> None:
    told = summarise([flow(), flow("west->east")], NOW)
    assert told.tone == "good"
    assert told.headline == "Both flows are healthy"
    assert told.losses == (
        "If east or west died now: nothing of what they held 2 s ago would be lost.",
    )


def test_a_flow_that_is_behind_is_the_headline() -> None:
    behind = flow(offset_lag=4112, time_lag_ms=38_000, worst_topic="payments")
    told = summarise([flow("west->east"), behind, flow("west->lake", state="paused")], NOW)
    assert told.tone == "attention"
    assert told.headline == "1 of 3 flows needs attention"
    assert told.losses[0] == (
        "If east died now: 4,112 records lost, the oldest 38 s old, most in payments."
    )
    assert told.troubles == (Trouble("east->west", "is 38 s behind."),)
    assert told.resting == "west→lake is paused."


def test_what_fires_of_a_flow_makes_it_a_trouble_also_while_it_rests() -> None:
    fires = {"severity": "critical", "alert": "has 1 gap that waits"}
    paused = flow(state="paused", offset_lag=4112, time_lag_ms=540_000, **fires)
    told = summarise([paused, flow("west->east")], NOW)
    assert (told.tone, told.headline) == ("critical", "1 of 2 flows needs attention")
    sentence = "is paused; it has 1 gap that waits."
    assert told.troubles == (Trouble("east->west", sentence),)
    assert told.resting == ""
    lags = flow(state="paused", offset_lag=4112, time_lag_ms=541_000, severity="warning")
    assert summarise([lags], NOW).troubles[0].sentence == "is paused; it is 9 min 1 s behind."
    runs = flow(severity="warning", alert="wrote its last checkpoint 12 min ago")
    told = summarise([runs], NOW)
    assert told.tone == "attention"
    assert told.troubles[0].sentence == "wrote its last checkpoint 12 min ago."
    grave = summarise([flow(state="failed", severity="warning", alert="is 1 min behind")], NOW)
    assert grave.tone == "critical"


def test_what_was_written_since_the_last_look_is_not_promised() -> None:
    seen = [flow(as_of=NOW - timedelta(seconds=age)) for age in (0.4, 2.2)]
    seen[1] = dataclasses.replace(seen[1], name="west->east", source="west")
    assert summarise(seen, NOW).losses == (
        "If east or west died now: nothing of what they held 3 s ago would be lost.",
    )


def test_of_two_flows_of_a_source_the_one_seen_longer_ago_says_when() -> None:
    fresh, older = (flow(as_of=NOW - timedelta(seconds=age)) for age in (1, 9))
    older = dataclasses.replace(older, name="east->north")
    told = ("If east died now: nothing of what it held 9 s ago would be lost.",)
    assert summarise([fresh, older], NOW).losses == told
    assert summarise([older, fresh], NOW).losses == told


def test_a_source_that_is_gone_is_said_and_nothing_more_is_promised_than_was_seen() -> None:
    gone = flow(offset_lag=663, time_lag_ms=214_000, worst_topic="clicks", source_is_gone=True)
    assert summarise([gone], NOW).losses == (
        "east does not answer; not copied from it: 663 records at least, "
        "the oldest 3 min 34 s old, most in clicks.",
    )
    told = summarise([gone], NOW)
    assert told.tone == "critical"
    assert told.troubles[0].sentence == "reads from east, which does not answer."
    empty = summarise([flow(source_is_gone=True), flow("west->east")], NOW).losses
    assert "east does not answer; all that it was last seen to hold is copied." in empty
    assert "If west died now: nothing of what it held 2 s ago would be lost." in empty


def test_clusters_that_do_not_answer_are_the_cause_and_stand_in_the_headline() -> None:
    broken = flow(state="degraded", reason="Cluster west: no answer in time.")
    told = summarise([broken, flow("west->east")], NOW, (), ["west"])
    assert told.headline == "1 of 2 flows needs attention: west does not answer"
    many = summarise([broken], NOW, (), ["north", "west", "lake"]).headline
    assert many == "The only flow needs attention: 3 clusters do not answer"
    both = summarise([broken, flow("west->east")], NOW, (), ["north", "west"]).headline
    assert both.endswith(": north and west do not answer")
    assert summarise([flow()], NOW, (), ["lake"]).headline == "The only flow is healthy"


def test_of_a_source_that_is_not_read_at_the_moment_no_more_is_promised_than_was_seen() -> None:
    told = summarise([flow(state="degraded"), flow("west->east")], NOW)
    assert told.losses == (
        "If east died now: nothing of what was last seen there would be lost.",
        "If west died now: nothing of what it held 2 s ago would be lost.",
    )


def test_a_flow_that_starts_is_not_called_healthy_yet() -> None:
    begins = flow(state="starting", offset_lag=None)
    both = summarise([begins, flow("west->east", state="starting", offset_lag=None)], NOW)
    assert (both.tone, both.headline) == ("starting", "Both flows are starting")
    assert both.losses[0] == "If west died now: loss unknown, no figures from west→east."
    one = summarise([begins, flow("west->east")], NOW)
    assert (one.tone, one.headline) == ("starting", "1 of 2 flows is starting")
    worse = summarise([begins, flow("west->east", state="failed")], NOW)
    assert worse.headline == "1 of 2 flows needs attention"


def test_a_failed_flow_is_critical_and_says_why() -> None:
    failed = flow(state="failed", reason="orders-3: record of 2 MB is too large for backup.")
    told = summarise([failed], NOW)
    assert told.tone == "critical"
    assert told.headline == "The only flow needs attention"
    sentence = "is failed: orders-3: record of 2 MB is too large for backup."
    assert told.troubles == (Trouble("east->west", sentence, by_state=True),)


def test_old_figures_promise_nothing() -> None:
    old = flow(as_of=NOW - timedelta(minutes=2))
    told = summarise([old], NOW)
    assert told.tone == "unknown"
    assert told.losses[0] == (
        "If east died now: loss unknown, no figures from east→west for 2 min."
    )
    assert "is its runner alive?" in told.troubles[0].sentence


def test_a_flow_that_never_reported_promises_nothing() -> None:
    told = summarise([flow(state="starting", offset_lag=None, as_of=None)], NOW)
    assert told.losses[0] == "If east died now: loss unknown, no figures from east→west."


def test_flows_at_rest_are_named_but_are_no_trouble() -> None:
    told = summarise([flow(state="paused"), flow("west->east", state="stopped")], NOW)
    assert told.tone == "resting"
    assert told.headline == "Both flows rest"
    assert told.resting == "east→west is paused. west→east is stopped."
    mixed = summarise([flow(), flow("west->east", state="stopped")], NOW)
    assert (mixed.tone, mixed.headline) == ("good", "1 active flow is healthy, 1 at rest")


def test_a_paused_source_with_old_figures_is_an_unknown_loss() -> None:
    paused = flow(state="paused", as_of=NOW - timedelta(hours=9), offset_lag=18)
    assert "loss unknown" in summarise([paused], NOW).losses[0]


def test_silent_processes_of_ours_are_named_with_what_that_means() -> None:
    assert summarise([flow()], NOW).engine == ""
    told = summarise([flow()], NOW, ["Celery beat", "Reconciler", "Celery worker"])
    assert told.engine.startswith("Celery beat, Reconciler and Celery worker show no sign of life")
    assert summarise([], NOW, ["Reconciler"]).engine.startswith("Reconciler shows no sign")


def test_rows_sort_by_trouble_then_by_name() -> None:
    rows = [
        flow("a->b"),
        flow("b->a", state="paused"),
        flow("c->a", time_lag_ms=40_000),
        flow("d->a", state="failed"),
        flow("e->a", as_of=None),
    ]
    assert [row.name for row in by_trouble(rows, NOW)] == ["d->a", "c->a", "e->a", "b->a", "a->b"]


@pytest.mark.parametrize("state", ["draft", "paused", "stopped", "failed_over"])
def test_a_resting_flow_is_never_stale(state: str) -> None:
    assert not is_stale(flow(state=state, as_of=None), NOW)


pictures = st.builds(
    FlowPicture,
    name=st.sampled_from(["a->b", "b->a", "a->c", "c->a", "b->c"]),
    source=st.sampled_from(["a", "b", "c"]),
    state=st.sampled_from(STATES),
    reason=st.text(max_size=20),
    offset_lag=st.none() | st.integers(0, 10**9),
    time_lag_ms=st.none() | st.integers(0, 10**9),
    as_of=st.none() | st.timedeltas(timedelta(0), timedelta(days=9)).map(lambda age: NOW - age),
)


@given(st.lists(pictures, max_size=6, unique_by=lambda row: row.name))
def test_the_headline_is_green_only_when_no_flow_needs_a_person(rows: list[FlowPicture]) -> None:
    told = summarise(rows, NOW)
    needy = [row for row in rows if tone(row, NOW) in {"critical", "attention", "unknown"}]
    assert (told.tone in {"good", "resting", "starting"}) == (not needy)
    assert "starting" not in {row.state for row in rows} or told.tone != "good"
    assert "attention" not in told.headline or needy


@given(st.lists(pictures, min_size=1, max_size=6, unique_by=lambda row: row.name))
def test_zero_loss_is_only_ever_said_of_fresh_figures(rows: list[FlowPicture]) -> None:
    for sentence in summarise(rows, NOW).losses:
        if " held " in sentence:
            named = sentence.removeprefix("If ").split(" died")[0].replace(" or ", ", ").split(", ")
            of_source = [row for row in rows if row.source in named and row.state != "draft"]
            assert all(row.as_of and NOW - row.as_of <= timedelta(seconds=15) for row in of_source)
            assert all(row.offset_lag == 0 for row in of_source)
