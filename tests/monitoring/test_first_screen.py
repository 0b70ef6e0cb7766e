"""Trust and trends of the first screen: what drills have proven, how the last hour went."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Flow
from monitoring.domain.spark import HEIGHT, WIDTH, path
from monitoring.domain.standby import Standby, trust
from monitoring.models import Alert, AlertRule, LagSample, Silence
from tests.pages import world
from tests.pages.conftest import As, signed_in, silent_queue

__all__ = ["signed_in", "silent_queue"]
DAY = timedelta(days=1)


def test_what_drills_have_proven_is_one_sentence() -> None:
    never, good = Standby("a->b", "never"), Standby("b->a", "proven", 3 * DAY)
    assert trust([]) == ""
    assert trust([never, Standby("b->a", "never")]) == "No drill has proven a standby yet."
    assert trust([never, good]) == (
        "No drill has proven a→b yet. The standby of b→a was proven by a drill 3 d ago."
    )
    failed, old = Standby("c->a", "failed", DAY), Standby("d->a", "stale", 40 * DAY)
    assert trust([failed, old]) == (
        "The last drill of c→a failed. The standby of d→a was last proven 40 d ago: too long."
    )
    assert trust([never, good, failed, old]) == (
        "Of 4 standbys 1 failed the last drill (c→a), 1 proven by a drill, "
        "1 proven too long ago, 1 never drilled."
    )


def test_a_trend_starts_at_zero_breaks_where_nothing_is_known_and_shows_noise_small() -> None:
    assert path([], 10) == path([None, None], 10) == path([1], 10) == ""
    assert path([0, None, 30], 30) == f"M0.0 {HEIGHT - 1}.0h0M{WIDTH}.0 1.0h0"
    low = path([0, 1, 0], 100)
    assert [float(y) for y in re.findall(r" ([\d.]+)", low)] == [17.0, 16.8, 17.0]


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    world.topic(flow, "orders", state="lagging", offset_lag=12, time_lag_ms=4_000)
    return flow


def overview(browser: Client) -> str:
    return str(browser.get("/").content.decode())


def test_an_alert_says_what_to_do_on_the_first_screen_until_it_is_silenced(
    signed_in: As, flow: Flow
) -> None:
    now = timezone.now()
    rule = AlertRule.objects.filter(kind="gap").first()
    facts = {"rule_name": "A gap waits", "severity": "critical", "state": "firing"}
    Alert.objects.create(
        rule=rule,
        subject=f"flow:{flow.pk}",
        subject_name="east→west",
        flow=flow,
        sentence="waits for a decision on 1 gap",
        fired_at=now,
        **facts,
    )
    Alert.objects.create(
        rule=rule, subject="runner:1", subject_name="Runner r", sentence="is lost", fired_at=now,
        **facts,
    )  # fmt: skip
    operator = signed_in("operator")
    Flow.objects.filter(pk=flow.pk).update(observed_state="failed", reason="It is too large.")
    Alert.objects.update(state="pending")
    assert "/alerts/runbooks/flow_failed/" in overview(operator)
    Flow.objects.filter(pk=flow.pk).update(observed_state="running", reason="")
    Alert.objects.update(state="firing")
    text = overview(operator)
    assert "The only flow needs attention" in text
    assert "waits for a decision on 1 gap." in text
    assert "Runner r</strong></a> is lost." in text
    assert text.count("/alerts/runbooks/gap/") == 2
    assert f'action="/flows/{flow.pk}/simulate/"' in text
    assert "Simulate failover" not in overview(signed_in("viewer"))
    Silence.objects.create(starts_at=now, ends_at=now + timedelta(hours=1), reason="work")
    assert "The only flow is healthy" in overview(operator)


def test_rows_show_the_last_hour_the_objective_and_what_the_standby_is_worth(
    signed_in: As, flow: Flow
) -> None:
    minute = timezone.now().replace(second=0, microsecond=0)
    for ago in range(1, 6):
        LagSample.objects.create(
            flow=flow, resolution=60, at=minute - timedelta(minutes=ago), time_lag_ms=1000 * ago,
            out_of_sync=0,
        )  # fmt: skip
    text = overview(signed_in("viewer"))
    assert "RPO in the last hour: at most 5 s" in text
    assert re.search(r'<path d="M[\d. LMh]+"', text)
    assert "No drill has proven a standby yet." in text
    assert f'href="/flows/{flow.pk}/readiness/"' in text


def test_what_changed_leaves_out_the_steps_of_runs_that_touch_nothing_real(
    signed_in: As, flow: Flow
) -> None:
    world.transition(flow, subject="failoverrun", name="simulation 7", to_state="running")
    world.transition(flow, subject="failoverrun", name="simulation 8", to_state="succeeded")
    world.transition(flow, subject="failoverrun", name="switchover 9", to_state="running")
    text = overview(signed_in("viewer"))
    assert "simulation 7" not in text
    assert "simulation 8" in text
    assert "switchover 9" in text
