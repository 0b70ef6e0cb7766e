"""Evaluates the rules over what is known now; each change of an alert is won by one process.

The winner writes, in the same transaction, what is to be told to whom. Sending is `telling`'s work,
so a process that dies between loses nothing and tells nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from django.db import transaction

from mirrors.models import Flow
from monitoring.alerts import facts
from monitoring.domain.alerts.conditions import read_flow, read_runner
from monitoring.domain.alerts.rules import Condition, Reading, decide, rules_of
from monitoring.models import Alert, AlertRule, AlertState, Channel, Delivery, Silence

Subject = tuple[str, str, Flow | None]
_BATCH = 200
_GONE = Reading(False, True, None, "is no more, or its rule is not")


def evaluate(*, now: datetime) -> None:
    """One look: alerts are opened, reworded or ended. What nobody knows changes nothing."""
    rules = list(AlertRule.objects.filter(enabled=True))
    unresolved = Alert.objects.filter(resolved_at=None).select_related("rule", "flow")
    opened = {(alert.rule_id, alert.subject): alert for alert in unresolved}
    silences = list(Silence.objects.filter(starts_at__lte=now, ends_at__gt=now))
    reworded = []
    for rule, subject, reading in _readings(rules, now):
        alert = opened.pop((rule.pk, subject[0]), None)
        left = _step(rule, subject, alert, reading, silences, now)
        if left is not None and _reword(left, reading):
            reworded.append(left)
    # When a whole site stands, the sentences of a thousand alerts change at once.
    still = Alert.objects.filter(resolved_at=None)
    still.bulk_update(reworded, ["value", "sentence"], batch_size=_BATCH)
    for alert in opened.values():
        _end(alert, _GONE, now)


def is_silenced(alert: Alert, silences: Sequence[Silence]) -> bool:
    return any(
        one.flow_id in {None, alert.flow_id}
        and one.rule_id in {None, alert.rule_id}
        and (one.cluster_id is None or one.cluster_id in _clusters_of(alert))
        for one in silences
    )


def _clusters_of(alert: Alert) -> set[int]:
    return {alert.flow.source_id, alert.flow.target_id} if alert.flow else set()


def _readings(
    rules: list[AlertRule], now: datetime
) -> Iterator[tuple[AlertRule, Subject, Reading]]:
    runner_rules = [rule for rule in rules if rule.kind == "runner_down"]
    flow_rules = [rule for rule in rules if rule.kind != "runner_down"]
    for flow, known in facts.of_flows(now):
        subject = (f"flow:{flow.pk}", flow.label.replace("->", "→"), flow)
        for rule in rules_of(flow_rules, flow.pk):
            yield rule, subject, read_flow(rule.condition, known, now)
    for runner, seen in facts.of_runners(now):
        for rule in runner_rules:
            subject = (f"runner:{runner.pk}", f"Runner {runner.name}", None)
            yield rule, subject, read_runner(seen)


def _step(
    rule: AlertRule,
    subject: Subject,
    alert: Alert | None,
    reading: Reading,
    silences: Sequence[Silence],
    now: datetime,
) -> Alert | None:
    """What is left of the alert, if anything."""
    condition: Condition = rule.condition
    state = None if alert is None else alert.state
    step = decide(
        state,  # type: ignore[arg-type]
        alert.since if alert else None,
        reading,
        condition,
        now,
    )
    if alert is None:
        if step in {"begin", "fire"}:
            alert = _open(rule, subject, reading, now)
    elif step in {"resolve", "drop"}:
        _end(alert, reading, now)
        return None
    if alert is None:
        return None
    if step == "fire":
        _fire(alert, reading, now)
    if alert.state == AlertState.FIRING and alert.told_at is None:
        _tell_when_heard(alert, silences, now)
    return alert


def _open(rule: AlertRule, subject: Subject, reading: Reading, now: datetime) -> Alert | None:
    """None when another process opened it at the same moment; it goes on with it then."""
    key, name, flow = subject
    fresh = Alert(
        rule=rule,
        rule_name=rule.name,
        subject=key,
        subject_name=name[:255],
        flow=flow,
        severity=rule.severity,
        value=reading.value,
        sentence=reading.sentence,
        since=now,
    )
    Alert.objects.bulk_create([fresh], ignore_conflicts=True)
    return Alert.objects.filter(rule=rule, subject=key, resolved_at=None, since=now).first()


def _fire(alert: Alert, reading: Reading, now: datetime) -> None:
    changes = {
        "state": AlertState.FIRING,
        "fired_at": now,
        "value": reading.value,
        "sentence": reading.sentence,
    }
    if Alert.objects.filter(pk=alert.pk, state=AlertState.PENDING).update(**changes):
        for name, value in changes.items():
            setattr(alert, name, value)


def _reword(alert: Alert, reading: Reading) -> bool:
    """Whether what holds reads otherwise now."""
    if reading.sentence == alert.sentence or not reading.holds:
        return False
    alert.value, alert.sentence = reading.value, reading.sentence
    return True


def _tell_when_heard(alert: Alert, silences: Sequence[Silence], now: datetime) -> None:
    """Told once, as soon as no silence covers it; acknowledged before that, never."""
    if is_silenced(alert, silences) or alert.acknowledged_at is not None:
        return
    untold = Alert.objects.filter(pk=alert.pk, state=AlertState.FIRING, told_at=None)
    with transaction.atomic():
        if untold.update(told_at=now):
            _queue(alert, "firing", now)


def _end(alert: Alert, reading: Reading, now: datetime) -> None:
    """A pending alert leaves no trace; one that fired is kept, and those who were told hear it."""
    if alert.state == AlertState.PENDING:
        Alert.objects.filter(pk=alert.pk, state=AlertState.PENDING).delete()
        return
    firing = Alert.objects.filter(pk=alert.pk, state=AlertState.FIRING)
    ended = {"state": AlertState.RESOLVED, "resolved_at": now, "sentence": reading.sentence}
    with transaction.atomic():
        told = Delivery.objects.filter(alert=alert, what="firing").exists()
        if firing.update(**ended) and told:
            _queue(alert, "resolved", now)


def _queue(alert: Alert, what: str, now: datetime) -> None:
    channels = Channel.objects.filter(enabled=True)
    if alert.rule is not None and alert.rule.channels.exists():
        channels = channels.filter(rules=alert.rule)
    Delivery.objects.bulk_create(
        [
            Delivery(alert=alert, channel=channel, what=what, due_at=now, created_at=now)
            for channel in channels
        ],
        ignore_conflicts=True,
    )
