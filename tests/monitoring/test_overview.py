"""Readiness and trends on the overview: results of drills, the last hour."""

from __future__ import annotations

import itertools
import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Cluster, FailoverRun, Flow, GroupOffset
from monitoring.alerts.evaluation import is_silenced
from monitoring.domain.overview.drill_results import StandbyProof, drill_sentence
from monitoring.domain.overview.sparkline import (
    CURVE_HEIGHT,
    CURVE_WIDTH,
    HEIGHT,
    WIDTH,
    path,
    sparkline,
)
from monitoring.models import Alert, AlertRule, LagSample, Silence
from monitoring.models.alerts import unsilenced_alerts
from tests.pages import world
from tests.pages.conftest import As, signed_in, silent_queue

__all__ = ["signed_in", "silent_queue"]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def test_what_drills_have_proven_is_one_sentence() -> None:
    never, good = StandbyProof("a->b", "never"), StandbyProof("b->a", "proven", 3 * DAY)
    assert drill_sentence([]) == ""
    assert (
        drill_sentence([never, StandbyProof("b->a", "never")])
        == "No drill has verified a standby yet."
    )
    assert drill_sentence([never, good]) == (
        "No drill has verified a→b yet. The standby of b→a was verified by a drill 3 d ago."
    )
    failed, old = StandbyProof("c->a", "failed", DAY), StandbyProof("d->a", "stale", 40 * DAY)
    assert drill_sentence([failed, old]) == (
        "The last drill of c→a failed. The standby of d→a was last verified 40 d ago: too long."
    )
    assert drill_sentence([never, good, failed, old]) == (
        "Of 4 standbys 1 failed the last drill (c→a), 1 verified by a drill, "
        "1 verified too long ago, 1 never drilled."
    )


def test_a_trend_starts_at_zero_breaks_where_nothing_is_known_and_shows_noise_small() -> None:
    assert path([], 10) == path([None, None], 10) == path([1], 10) == ""
    assert path([0, None, 30], 30) == f"M0.0 {HEIGHT - 1}.0h0M{WIDTH}.0 1.0h0"
    low = path([0, 1, 0], 100)
    assert [float(y) for y in re.findall(r" ([\d.]+)", low)] == [17.0, 16.8, 17.0]


def test_a_curve_is_the_worst_of_all_with_the_objective_and_a_stroke_for_each_change() -> None:
    start = datetime(2026, 11, 22, 2, tzinfo=UTC)
    asked = {"least_top": 10, "start": start, "span": 2 * HOUR}
    found = sparkline(
        [[0, 5, None], [20, None, None], []],
        objective=40,
        changes=[start, start + HOUR, start + 3 * HOUR],
        **asked,
    )
    assert found is not None
    assert found.values == (20, 5, None)
    assert (found.worst, found.last) == (20, 5)
    assert found.ticks == (0, CURVE_WIDTH / 2, CURVE_WIDTH)
    assert found.objective == f"M0 1.0H{CURVE_WIDTH}"
    middle = CURVE_HEIGHT - 1 - (CURVE_HEIGHT - 2) / 2
    assert found.line.startswith(f"M0.0 {middle:.1f}h0L{CURVE_WIDTH / 2:.1f} ")
    assert sparkline([[None, None], []], objective=None, changes=[], **asked) is None
    assert sparkline([], objective=None, changes=[], **asked) is None


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
    assert "No drill has verified a standby yet." in text
    assert f'href="/flows/{flow.pk}/readiness/"' in text
    assert "Worst RPO in the last hour: 1 s in its last full minute, at most 5 s" in text


def test_what_a_source_holds_that_does_not_answer_looks_old_and_is_the_headlines_cause(
    signed_in: As, flow: Flow
) -> None:
    viewer, now = signed_in("viewer"), timezone.now()
    assert '<td class="number old">' not in overview(viewer)
    Cluster.objects.filter(pk=flow.source_id).update(reachable=False, reason="Refused.")
    Flow.objects.filter(pk=flow.pk).update(
        observed_state="degraded", reason="No answer.", since=now - timedelta(seconds=70)
    )
    text = overview(viewer)
    assert f"The only flow needs attention: {flow.source.alias} is unreachable" in text
    assert text.count('<td class="number old">') == 2
    assert f'since <time datetime="{(now - timedelta(seconds=70)):%Y-%m-%dT%H:%M:%S}' in text


def test_what_rests_copies_nothing_though_its_last_sample_began_before(
    signed_in: As, flow: Flow
) -> None:
    LagSample.objects.create(
        flow=flow, resolution=10, at=timezone.now(), bytes_per_second=3200.0, out_of_sync=0
    )
    viewer = signed_in("viewer")
    assert "3.2 kB/s" in overview(viewer)
    Flow.objects.filter(pk=flow.pk).update(observed_state="paused")
    assert "3.2 kB/s" not in overview(viewer)
    assert "0 B/s" in overview(viewer)


def test_flows_that_are_not_running_are_named_with_what_they_did_not_copy(
    signed_in: As, flow: Flow
) -> None:
    Flow.objects.filter(pk=flow.pk).update(desired_state="paused", observed_state="paused")
    assert "east→west is paused; not replicated: at most 12 records" in overview(
        signed_in("viewer")
    )


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


def test_groups_that_read_what_is_furthest_behind_stand_worst_first_with_all_that_waits(
    signed_in: As, flow: Flow
) -> None:
    world.topic(flow, "bills", state="lagging", offset_lag=3, time_lag_ms=9_000)
    world.topic(flow, "calm")
    reads = {"audit": ["calm"], "web": ["orders"], "app": ["orders", "bills", "calm"]}
    for group, topics in reads.items():
        for topic in topics:
            for partition in range(2):
                GroupOffset.objects.create(
                    flow=flow, group=group, topic=topic, partition=partition,
                    sync_state="in_sync", as_of=timezone.now(),
                )  # fmt: skip
    viewer = signed_in("viewer")
    rows = json.loads(viewer.get("/?as=json&of=groups").getvalue())
    assert [(row["group"], row["topic"], row["time_lag_ms"]) for row in rows] == [
        ("app", "bills", 9_000),
        ("web", "orders", 4_000),
    ]
    assert [row["offset_lag"] for row in rows] == [15, 12]
    text = overview(viewer)
    assert "Worst consumer groups now" in text
    assert f'href="/flows/{flow.pk}/groups/?q=app"' in text
    flow.topics.filter(topic="calm").update(unknown_partitions=1, certainty="unknown")
    rows = json.loads(viewer.get("/?as=json&of=groups").getvalue())
    # Who reads a topic of which nobody knows how far behind it is may be the worst of all.
    assert [row["offset_lag"] for row in rows] == [None, 12, None]


def test_the_menu_counts_what_there_is_and_what_fires_and_hides_it_from_whoever_has_no_role(
    signed_in: As, flow: Flow
) -> None:
    viewer = signed_in("viewer")
    facts = {"rule_name": "r", "state": "firing", "fired_at": timezone.now()}
    count = re.compile(r'data-count="(\w+)"[^>]*?( hidden)?>(\d+)<')
    assert sorted(count.findall(viewer.get("/help/").content.decode())) == [
        ("alerts", " hidden", "0"), ("clusters", "", "2"), ("flows", "", "1"),
        ("runs", " hidden", "0"),
    ]  # fmt: skip
    Alert.objects.create(subject="a", subject_name="a", severity="warning", flow=flow, **facts)
    Alert.objects.create(subject="b", subject_name="b", severity="critical", **facts)
    FailoverRun.objects.create(flow=flow, kind="simulation", mark="m", requested_by="ann")
    text = viewer.get("/help/").content.decode()
    assert ("alerts", "", "2") in count.findall(text)
    assert ("runs", "", "1") in count.findall(text)
    assert re.search(r'data-count="alerts"[^>]* data-state="critical"', text)
    part = viewer.get("/flows/", headers={"HX-Request": "true"}).content.decode()
    assert 'data-alerts="2" data-tone="critical"' in part
    ends = timezone.now() + HOUR
    Silence.objects.create(flow=flow, ends_at=ends)
    assert ("alerts", "", "1") in count.findall(viewer.get("/help/").content.decode())
    assert count.findall(signed_in("nobody").get("/help/").content.decode()) == []


def test_the_menu_counts_alerts_as_they_are_told(flow: Flow) -> None:
    """A silence is judged in the database as it is where alerts are sent."""
    other = world.flow(flow.source, world.cluster("lake"))
    rules = AlertRule.objects.order_by("pk")[:2]
    now = timezone.now()
    for number, (rule, of) in enumerate(itertools.product([*rules, None], [flow, other, None])):
        Alert.objects.create(
            rule=rule, rule_name="r", flow=of, subject=str(number), subject_name="s",
            severity="info", state="firing", fired_at=now,
        )  # fmt: skip
    alerts = list(Alert.objects.select_related("flow").order_by("pk"))
    whom = itertools.product([None, rules[0]], [None, flow], [None, flow.target, flow.source])
    for rule, of, cluster in whom:
        silence = Silence.objects.create(
            rule=rule, flow=of, cluster=cluster, starts_at=now, ends_at=now + HOUR
        )
        heard = [alert.pk for alert in alerts if not is_silenced(alert, [silence])]
        assert sorted(unsilenced_alerts(now).values_list("pk", flat=True)) == heard
        assert unsilenced_alerts(now + HOUR).count() == len(alerts)
        silence.delete()
