"""Alerts over rows: each change is sent once, despite crashes, races, silences and
acknowledgments."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER, kind_of
from mirrors.models import DutyRun, Flow, FlowAccount, HeartbeatState, Runner, Transition
from monitoring.alerts import actions, evaluation
from monitoring.channels import delivery
from monitoring.models import Alert, AlertRule, Channel, Delivery, Silence
from tests.monitoring.conftest import Receiver
from tests.pages import world

START = timezone.now()


@pytest.fixture
def flow(db: None) -> Flow:
    AlertRule.objects.all().delete()
    AlertRule.objects.create(name="RPO", kind="time_lag", threshold=30, for_seconds=20)
    flow = world.flow(world.cluster("primary"), world.cluster("backup"))
    world.topic(flow, offset_lag=9, time_lag_ms=1_000)
    return flow


def at(seconds: int, lag_s: int, flow: Flow) -> None:
    """The flow is so far behind at this moment, and the rules are looked at."""
    now = START + timedelta(seconds=seconds)
    Flow.objects.filter(pk=flow.pk).update(as_of=now)
    world.owes(flow, time_lag_ms=lag_s * 1000)
    FlowAccount.objects.filter(flow=flow).update(as_of=now, observed_at=now)
    evaluation.evaluate(now=now)


def deliver(seconds: int) -> int:
    now = START + timedelta(seconds=seconds)
    return sum(delivery.send(delivery_id=pk, now=now) for pk in delivery.due(now))


def fire(flow: Flow) -> Alert:
    for seconds in (0, 10, 20):
        at(seconds, 60, flow)
    return Alert.objects.get()


def test_an_alert_fires_and_resolves_once_each_and_is_told_so(
    flow: Flow, channel: Channel, receiver: Receiver
) -> None:
    for seconds, lag in enumerate([5, 40, 50, 60, 60, 60, 29, 20, 5, 5]):
        at(seconds * 10, lag, flow)
        deliver(seconds * 10)
    alert = Alert.objects.get()
    assert alert.state == "resolved"
    assert alert.fired_at == START + timedelta(seconds=30)
    assert alert.resolved_at == START + timedelta(seconds=70)
    assert [(told["what"], told["subject"]) for told in receiver.bodies] == [
        ("firing", "primary→backup"),
        ("resolved", "primary→backup"),
    ]
    assert receiver.bodies[0]["sentence"] == "is 1 min behind, at most 9 records"


def test_a_process_that_dies_after_the_change_has_still_told_it(
    flow: Flow, channel: Channel, receiver: Receiver
) -> None:
    fire(flow)  # and nobody sends: the process is gone
    [waiting] = Delivery.objects.all()
    assert waiting.state == "queued"
    assert deliver(500) == 1
    assert deliver(600) == 0
    assert len(receiver.got) == 1


def test_a_process_that_dies_while_it_sends_is_made_up_for_with_the_same_key(
    flow: Flow, channel: Channel, receiver: Receiver
) -> None:
    fire(flow)
    now = START + timedelta(seconds=21)
    Delivery.objects.update(state="sending", attempt=1, claimed_until=now + timedelta(seconds=60))
    assert delivery.due(now) == []
    assert deliver(90) == 1
    [(headers, _)] = receiver.got
    assert headers["X-Understudy-Delivery"] == str(Delivery.objects.get().key)


def test_two_evaluations_at_once_open_and_tell_one_alert(flow: Flow, channel: Channel) -> None:
    stale = AlertRule.objects.get()
    for seconds in (0, 10, 20, 20, 20):
        at(seconds, 60, flow)
    alert = Alert.objects.get()
    # Another process decided on what it read before: it comes too late for each change.
    alert.state, alert.told_at = "pending", None
    now = START + timedelta(seconds=20)
    subject = (alert.subject, alert.subject_name, flow)
    condition = stale.condition
    reading = next(iter(evaluation._readings([stale], {stale.pk: condition}, now)))[2]
    assert evaluation._open(stale, subject, reading, START) is not None
    evaluation._step(stale, condition, subject, alert, reading, [], now)
    assert Alert.objects.count() == 1
    assert Delivery.objects.count() == 1


def test_a_silence_holds_the_telling_back_until_it_ends(flow: Flow, channel: Channel) -> None:
    silence = Silence.objects.create(
        flow=flow, starts_at=START, ends_at=START + timedelta(hours=1), who="ann"
    )
    fire(flow)
    assert Delivery.objects.count() == 0
    actions.end_silence(silence=silence, now=START + timedelta(seconds=25), who="ann")
    at(30, 60, flow)
    at(40, 60, flow)
    assert Delivery.objects.count() == 1


def test_nobody_hears_the_end_of_what_nobody_heard_of(flow: Flow, channel: Channel) -> None:
    Silence.objects.create(starts_at=START, ends_at=START + timedelta(hours=1), who="ann")
    fire(flow)
    at(30, 1, flow)
    assert Alert.objects.get().state == "resolved"
    assert Delivery.objects.count() == 0


def test_the_first_who_acknowledges_keeps_it(flow: Flow) -> None:
    alert = actions.acknowledge(alert=fire(flow), who="ann", note="Broker 3 is being replaced.")
    assert actions.acknowledge(alert=alert, who="ben").acknowledged_by == "ann"


def test_a_deleted_flow_or_rule_leaves_no_alert_open(flow: Flow, channel: Channel) -> None:
    fire(flow)
    AlertRule.objects.all().delete()
    at(30, 60, flow)
    alert = Alert.objects.get()
    assert (alert.state, alert.rule_name) == ("resolved", "RPO")
    assert [told.what for told in Delivery.objects.order_by("id")] == ["firing", "resolved"]


def test_a_runner_that_is_lost_is_told_by_name(flow: Flow) -> None:
    AlertRule.objects.create(name="Down", kind="runner_down", severity="critical")
    Runner.objects.update(state="lost", reason="It is silent.")
    at(0, 0, flow)
    alert = Alert.objects.get()
    assert (alert.state, str(alert)) == ("firing", "Down: Runner default")
    assert alert.sentence == "is lost: It is silent"


def test_a_rule_tells_its_own_channels_only(flow: Flow, channel: Channel) -> None:
    other = Channel.objects.create(name="other", kind="webhook", target="https://x.example/")
    Channel.objects.create(name="off", kind="webhook", target="https://y.example/", enabled=False)
    AlertRule.objects.get().channels.add(other)
    fire(flow)
    assert [told.channel for told in Delivery.objects.all()] == [other]


def test_a_look_at_the_rules_costs_the_same_queries_for_many_flows(flow: Flow) -> None:
    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            at(0, 0, flow)
        return len(queries)

    few = cost()
    for _ in range(10):
        world.topic(world.flow())
    assert cost() == few


def test_sentences_of_many_alerts_that_change_at_once_are_written_at_once(flow: Flow) -> None:
    """What falls behind further each second, told of ten flows."""
    hub = flow.target
    for _ in range(9):
        world.topic(world.flow(world.cluster(), hub), offset_lag=9)

    def cost(seconds: int) -> int:
        now = START + timedelta(seconds=seconds)
        Flow.objects.update(as_of=now)
        for one in Flow.objects.all():
            world.owes(one, time_lag_ms=(60 + seconds) * 1000)
        with CaptureQueriesContext(connection) as seen:
            evaluation.evaluate(now=now)
        return len(seen)

    for seconds in (0, 10, 20, 30):
        cost(seconds)
    before = set(Alert.objects.values_list("sentence", flat=True))
    # Ten changes need no more statements than none.
    assert cost(40) == cost(40) + 1
    after = set(Alert.objects.values_list("sentence", flat=True))
    assert Alert.objects.filter(state="firing").count() == 10
    assert not before & after


def test_a_maintenance_window_of_a_cluster_covers_its_flows_while_it_lasts(
    flow: Flow, channel: Channel
) -> None:
    Silence.objects.create(
        cluster=flow.target,
        starts_at=START + timedelta(seconds=5),
        ends_at=START + timedelta(seconds=25),
        who="ann",
    )
    fire(flow)
    assert Delivery.objects.count() == 0
    at(30, 60, flow)
    assert Delivery.objects.count() == 1
    Silence.objects.update(cluster=world.cluster("elsewhere"), ends_at=START + timedelta(hours=1))
    assert not evaluation.is_silenced(Alert.objects.get(), list(Silence.objects.all()))


def test_the_age_of_checkpoints_is_that_of_the_last_run_that_ended_well(flow: Flow) -> None:
    AlertRule.objects.update(kind="checkpoint", threshold=600, for_seconds=0)
    Flow.objects.update(since=START - timedelta(days=1))
    for number, (minutes, error) in enumerate([(20, ""), (11, ""), (1, "Not authorised.")]):
        ended = START - timedelta(minutes=minutes)
        facts = {"since": ended, "started_at": ended, "ended_at": ended, "error": error}
        DutyRun.objects.create(flow=flow, duty="checkpoints", slot=number, **facts)
    at(0, 0, flow)
    assert Alert.objects.get().sentence == "last wrote the checkpoints of its groups 11 min ago"
    DutyRun.objects.update(error="")
    at(10, 0, flow)
    assert Alert.objects.get().state == "resolved"


def test_a_heartbeat_that_came_long_ago_is_told_until_a_newer_one_comes(flow: Flow) -> None:
    AlertRule.objects.update(kind="heartbeat", threshold=120, for_seconds=0)
    beat = HeartbeatState.objects.create(flow=flow, seen_at=START - timedelta(minutes=3))
    at(0, 0, flow)
    assert Alert.objects.get().sentence == "last received a heartbeat on its target 3 min ago"
    beat.seen_at = START
    beat.save()
    at(10, 0, flow)
    assert Alert.objects.get().state == "resolved"


@pytest.mark.parametrize(("who", "states"), [(RECONCILER, []), ("ana", ["firing"])])
def test_a_flow_that_its_window_began_may_be_behind_by_what_waited(
    flow: Flow, who: str, states: list[str]
) -> None:
    """One that a person let go on is behind for another reason."""
    opens = START + timedelta(minutes=1)
    properties = {"run.schedule": f"{opens:%M %H} * * *", "run.window.minutes": "60"}
    Flow.objects.filter(pk=flow.pk).update(properties=properties)
    Transition.objects.create(
        subject="flow", subject_id=flow.pk, field="desired_state", who=who, kind=kind_of(who),
        from_state="stopped", to_state="running", when=opens, name="f", why="its window is open",
    )  # fmt: skip
    for seconds in (90, 120, 150):
        at(seconds, 7200, flow)
    assert list(Alert.objects.values_list("state", flat=True)) == states
    for seconds in (1_900, 1_930):
        at(seconds, 7200, flow)
    assert [alert.state for alert in Alert.objects.all()] == ["firing"]
