"""The plan that a person agreed to: what is worse since, its scope, its commands."""

from __future__ import annotations

import shlex
from typing import Any

from mirrors.domain.failover.runbook.commands import commands
from mirrors.domain.failover.runbook.plan_drift import (
    blast_radius,
    find_regressions,
    remaining_blockers,
)
from mirrors.domain.failover.runbook.steps import STEPS


def plan(**changes: Any) -> dict[str, Any]:
    place = {"group": "billing", "topic": "orders", "partition": 0, "remote_topic": "p.orders"}
    certainty = changes.get("certainty", "observed")
    part = {"topic": "orders", "partition": 0, "remote_topic": "p.orders", "certainty": certainty}
    return {
        "loss": 100,
        "re_reads": 0,
        "certainty": "observed",
        "blockers": [],
        "partitions": [part],
        "places": [{**place, "downstream_offset": 7}],
        **changes,
    }


def test_live_figures_may_move_but_what_nobody_agreed_to_stops_the_run() -> None:
    assert find_regressions("failover", plan(), plan(loss=1_050)) == ()
    assert (
        "2,000 records would be lost" in find_regressions("failover", plan(), plan(loss=2_000))[0]
    )
    assert "data loss is now unknown" in find_regressions("failover", plan(), plan(loss=None))[0]
    assert find_regressions("failover", plan(), plan(certainty="last_known")) == ()
    # A switchover waits for what lags, but not without the source.
    assert find_regressions("switchover", plan(), plan(loss=10_000)) == ()
    assert "needs it" in find_regressions("switchover", plan(), plan(certainty="last_known"))[0]


def test_a_hidden_topic_that_is_left_behind_does_not_make_the_source_silent() -> None:
    """Its last figures are old, and the source answers for everything that takes part."""
    hidden = plan(certainty="last_known", partitions=plan()["partitions"])
    assert find_regressions("switchover", plan(), hidden) == ()
    without = {**hidden, "partitions": []}
    assert "needs it" in find_regressions("switchover", plan(), without)[0]
    # Everything is left behind: nothing is waited for.
    assert find_regressions("switchover", plan(), {**without, "left_behind": [{}]}) == ()


def test_a_new_blocker_and_a_lost_place_stop_the_run_each_said_once() -> None:
    blocker = {"code": "gap", "where": "orders-0", "sentence": "orders-0 has an open gap."}
    known = plan(blockers=[blocker])
    assert find_regressions("failover", plan(), known) == ("orders-0 has an open gap.",)
    assert find_regressions("failover", known, known) == ()
    assert remaining_blockers("switchover", known) == ("orders-0 has an open gap.",)
    writing = plan(blockers=[{"code": "writing", "where": "x", "sentence": "It still writes."}])
    assert find_regressions("failover", plan(), writing) == ()
    lost = plan(places=[{**plan()["places"][0], "downstream_offset": None}])
    assert "had a resume offset" in find_regressions("failover", plan(), lost)[0]
    told = {"code": "no_map", "where": "billing in orders-0", "sentence": "Nobody can say."}
    assert find_regressions("failover", plan(), {**lost, "blockers": [told]}) == (
        "Nobody can say.",
    )


def test_the_blast_radius_counts_what_is_touched() -> None:
    assert blast_radius(plan()) == {
        "topics": 1,
        "partitions": 1,
        "groups": 1,
        "places": 1,
        "not_moved": 0,
        "loss": 100,
        "re_reads": 0,
    }


def test_every_step_has_a_command_of_kafkas_own_tools_and_odd_names_stay_one_word() -> None:
    group = "bill'ing; rm -rf /"
    odd = plan(places=[{**plan()["places"][0], "group": group}])
    texts = commands(source="a:9092", target="b:9092", checkpoints="p.checkpoints", plan=odd)
    assert list(texts) == [step.name for step in STEPS]
    lines = texts["reset_groups"].splitlines()
    assert lines[1:3] == ["p.orders,0,7", "END"]
    words = shlex.split(lines[3])
    assert words[words.index("--group") + 1] == group
    assert "--deny-principal 'User:*' --operation Write --topic orders" in texts["fence_producers"]
