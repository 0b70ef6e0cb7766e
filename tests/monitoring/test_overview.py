"""Readiness and trends on the overview: results of drills, the last hour."""

from __future__ import annotations

import itertools
import json
import re
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import (
    Cluster,
    FailoverRun,
    Flow,
    FlowObjectives,
    GroupOffset,
    HeartbeatState,
    Sighting,
)
from monitoring.alerts.evaluation import is_silenced
from monitoring.domain.overview.summary import StandbyProof, drill_sentence
from monitoring.models import Alert, AlertRule, LagSample, Silence
from monitoring.models.alerts import unsilenced_alerts
from tests.pages import world
from tests.pages.conftest import As, signed_in, silent_queue

__all__ = ["signed_in", "silent_queue"]
HOUR = timedelta(hours=1)


def test_results_of_drills_are_one_sentence() -> None:
    never, good = StandbyProof("a->b", "never"), StandbyProof("b->a", "proven")
    assert drill_sentence([]) == ""
    untested = drill_sentence([never, StandbyProof("b->a", "never")])
    assert untested == "No failover drill of all groups has been run yet."
    assert (
        drill_sentence([never, good]) == "Drills: 1 of 2 standbys passed, 1 never tested in full."
    )
    failed, old = StandbyProof("c->a", "failed"), StandbyProof("d->a", "stale")
    assert drill_sentence([never, good, failed, old]) == (
        "Drills: 1 of 4 standbys passed, 1 failed (c→a), 1 passed too long ago, "
        "1 never tested in full."
    )


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    world.topic(flow, "orders", state="lagging", offset_lag=12, time_lag_ms=4_000)
    return flow


@pytest.fixture
def minute(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The begin of the current minute, which does not end during the test."""
    begin = timezone.now().replace(second=0, microsecond=0)
    monkeypatch.setattr(timezone, "now", lambda: begin + timedelta(seconds=30))
    return begin


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
    assert "Runner r</a> is lost." in text
    # Once below the flow, and once for each alert in its card.
    assert text.count("/alerts/runbooks/gap/") == 3
    assert f'action="/flows/{flow.pk}/simulate/"' in text
    assert "Simulate failover" not in overview(signed_in("viewer"))
    Silence.objects.create(starts_at=now, ends_at=now + timedelta(hours=1), reason="work")
    assert "The only flow is healthy" in overview(operator)


def test_rows_show_the_last_hour_the_objective_and_what_the_standby_is_worth(
    signed_in: As, flow: Flow, minute: datetime
) -> None:
    for ago in range(1, 6):
        LagSample.objects.create(
            flow=flow, resolution=60, at=minute - timedelta(minutes=ago), time_lag_ms=1000 * ago,
            out_of_sync=0,
        )  # fmt: skip
    text = overview(signed_in("viewer"))
    assert "RPO in the last hour: at most 5 s" in text
    assert re.search(r'<path d="M[\d. LMh]+"', text)
    assert "No failover drill of all groups has been run yet." in text
    assert f'href="/flows/{flow.pk}/readiness/"' in text


def test_the_chart_has_a_line_for_each_running_flow_in_its_own_color(
    signed_in: As, flow: Flow, minute: datetime
) -> None:
    stopped = world.flow(flow.target, flow.source, observed_state="stopped")
    facts = {"out_of_sync": 0, "time_lag_ms": 7_000}
    for of in (flow, stopped):
        for ago in (30, 31):
            at = minute - timedelta(minutes=ago)
            LagSample.objects.create(flow=of, resolution=60, at=at, **facts)
    # A minute that is not aggregated yet comes from the fine samples.
    now = minute - timedelta(seconds=50)
    LagSample.objects.create(flow=flow, resolution=10, at=now, out_of_sync=0, time_lag_ms=9_500)
    FlowObjectives.objects.create(flow=flow, rpo_seconds=30, set_by="ann")
    text = overview(signed_in("viewer"))
    series = re.findall(r'<g class="series" data-color="(\d)" data-values="([\d,]+)"', text)
    assert [color for color, _ in series] == [str(flow.pk % 8)]
    assert [value for value in series[0][1].split(",") if value] == ["7000", "7000", "9500"]
    assert '<path class="asked"' in text
    assert "peak 9.5 s" in text
    assert "objective 30 s" in text
    assert "1 stopped or paused flow not drawn" in text
    rows = json.loads(signed_in("viewer").get("/?as=json&of=curve").getvalue())
    assert [row["rpo_ms"] for row in rows if row["rpo_ms"]] == [7000, 7000, 9500]
    # The first half of the hour has no value: it is not drawn, and the chart says so.
    assert "RPO, last 31 min" in text
    since = minute - timedelta(minutes=31)
    assert re.search(rf"No value is known before <time [^>]*>{since:%H:%M}", text)
    assert len(rows) == 32
    assert datetime.fromisoformat(rows[0]["at"]) == since


def test_a_peak_over_minutes_without_a_value_is_unknown_or_a_lower_bound(
    signed_in: As, flow: Flow, minute: datetime
) -> None:
    other = world.flow(flow.target, flow.source)
    Flow.objects.update(created_at=minute - timedelta(days=1))
    young = world.flow(world.cluster("north"), flow.source)
    for of, lag in ((flow, 0), (other, 7_000), (young, 0)):
        at = minute - timedelta(minutes=20)
        LagSample.objects.create(
            flow=of, resolution=60, at=at, out_of_sync=0, time_lag_ms=lag
        )  # fmt: skip
    legend = overview(signed_in("viewer")).split('<ul class="legend"')[1].split("</ul>")[0]
    peaks = [
        re.sub(r"<[^>]*>", "", found).strip()
        for found in re.findall(r"<span>peak (.*?)</span></li>", legend)
    ]
    assert peaks == ["≥ 7 s", "unknown", "0 s"]
    assert "No value is known for 19 min" in legend


def test_the_chart_of_a_young_history_has_ten_minutes(
    signed_in: As, flow: Flow, minute: datetime
) -> None:
    at = minute - timedelta(seconds=20)
    LagSample.objects.create(flow=flow, resolution=10, at=at, out_of_sync=0, time_lag_ms=9_500)
    text = overview(signed_in("viewer"))
    assert "RPO, last 10 min" in text
    rows = json.loads(signed_in("viewer").get("/?as=json&of=curve").getvalue())
    assert [row["rpo_ms"] for row in rows] == [*[None] * 9, 9500, None]


def test_the_chart_of_a_whole_hour_says_nothing_of_its_begin(
    signed_in: As, flow: Flow, minute: datetime
) -> None:
    first = minute - HOUR
    LagSample.objects.create(flow=flow, resolution=60, at=first, out_of_sync=0, time_lag_ms=1)
    text = overview(signed_in("viewer"))
    assert "RPO, last hour" in text
    assert "No value is known before" not in text


def test_four_cards_state_health_loss_proof_and_alerts(signed_in: As, flow: Flow) -> None:
    world.flow(flow.target, world.cluster("lake"), observed_state="paused")
    cards = dict(re.findall(r'data-card="(\w+)">(.*?)</div>', overview(signed_in("viewer")), re.S))
    shown = {name: " ".join(re.sub(r"<[^>]+>", " ", card).split()) for name, card in cards.items()}
    assert shown["status"] == "Status 1 healthy 0 need attention 1 stopped or paused"
    assert shown["loss"].startswith("If a source fails now ≥ 4 s worst RPO If east fails now: at")
    assert "at most 12 records lost (oldest 4 s, mostly orders). east→west" in shown["loss"]
    assert "If west fails now: unknown data loss (no metrics from west→lake yet)" in shown["loss"]
    assert (
        "never last drill No failover drill of all groups has been run yet. Readiness"
        in shown["proof"]
    )
    assert shown["alerts"] == "Alerts 0 firing No alert is firing"


def test_healthy_rows_are_folded_only_below_rows_that_need_attention(
    signed_in: As, flow: Flow
) -> None:
    for number in range(4):
        world.flow(flow.source, world.cluster(f"c{number}"))
    viewer = signed_in("viewer")
    assert "healthy flows" not in overview(viewer)
    Flow.objects.filter(pk=flow.pk).update(observed_state="failed", reason="It is too large.")
    text = overview(viewer)
    shown, folded, *_ = text.split('<tbody class="folded">')
    assert shown.count('class="swatch" data-color') == 1
    assert "4 healthy flows" in folded
    # The sentence above the table has it already.
    assert 'class="clamp"' not in text


def test_component_health_is_folded_while_all_is_well(signed_in: As, flow: Flow) -> None:
    for kind in ("beat", "reconcile worker", "worker", "watcher"):
        Sighting.objects.create(name=kind, kind=kind, host="h", pid=1, seen_at=timezone.now())
    viewer = signed_in("viewer")
    text = overview(viewer)
    assert '<details class="fold" id="components-well">' in text
    assert re.search(r"\d+ OK, 3 unknown", text), "two clusters and a heartbeat"
    Cluster.objects.update(reachable=True)
    Flow.objects.update(properties={"emit.heartbeats.enabled": "false"})
    assert re.search(r"all \d+ OK", overview(viewer))
    Cluster.objects.filter(alias="west").update(reachable=False, reason="Refused.")
    text = overview(viewer)
    assert '<details class="fold" id="components-troubled" open>' in text
    rows = json.loads(viewer.get("/?as=json&of=whose").getvalue())
    assert (rows[0]["name"], rows[0]["state"], rows[0]["seen_at"]) == ("west", "unreachable", None)


def test_component_health_speaks_of_all_components_and_lists_those_in_trouble_first(
    signed_in: As, flow: Flow
) -> None:
    for number in range(40):
        world.cluster(f"lake-{number:02}", reachable=True)
    for number in range(12):
        world.runner(f"r{number:02}", state="lost")
    world.cluster("zoo", reachable=False, reason="Refused.")
    Sighting.objects.create(name="x", kind="watcher", host="h", pid=1, seen_at=timezone.now())
    text = overview(signed_in("viewer"))
    summary = re.search(r'<h2 id="whose-title">.*?</summary>', text)
    assert summary is not None
    # Of the others 12 are runners, and three are processes.
    assert "zoo, r00, r01, r02 and 12 more" in summary[0]
    assert re.search(r"\d+ more; the files have all", text)


def test_a_heartbeat_that_nobody_saw_for_a_reason_is_a_trouble(signed_in: As, flow: Flow) -> None:
    HeartbeatState.objects.create(flow=flow, error="west denies WRITE on heartbeats.")
    rows = json.loads(signed_in("viewer").get("/?as=json&of=whose").getvalue())
    beat = next(row for row in rows if row["what"] == "heartbeat")
    assert (beat["state"], beat["reason"]) == ("unknown", "west denies WRITE on heartbeats.")
    summary = re.search(r'<h2 id="whose-title">.*?</summary>', overview(signed_in("viewer")))
    assert summary is not None
    assert "east→west" in summary[0]


def test_a_cluster_that_nobody_checks_any_longer_is_not_called_reachable(
    signed_in: As, flow: Flow
) -> None:
    now = timezone.now()
    Cluster.objects.update(reachable=True, checked_at=now, reached_at=now)
    Cluster.objects.filter(alias="west").update(checked_at=now - timedelta(hours=2))
    viewer = signed_in("viewer")
    rows = json.loads(viewer.get("/?as=json&of=whose").getvalue())
    rows = [row for row in rows if row["what"] == "cluster"]
    states = {row["name"]: (row["state"], row["reason"]) for row in rows}
    assert states["east"] == ("reachable", "")
    words = "It was last checked 2 h ago. Check that Celery beat and a Celery worker run."
    assert states["west"] == ("unknown", words)
    assert words in viewer.get("/clusters/west/").content.decode()


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
