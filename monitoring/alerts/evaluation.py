"""Evaluates the alert rules: opens, fires and resolves alerts, and queues their deliveries.

- Each transition of an alert is a conditional UPDATE, so only one of several processes makes it.
- That process queues the deliveries in the same transaction. `channels.delivery` sends them, so a
  crash in between loses no message and repeats none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from django.db import connection, transaction

from mirrors.models import Flow
from mirrors.models.base import move, move_all
from monitoring.alerts import facts
from monitoring.domain.alerts.conditions import read_flow, read_runner
from monitoring.domain.alerts.rules import OF_RUNNERS, Condition, ConditionResult, decide, rules_of
from monitoring.models import Alert, AlertRule, AlertState, Channel, Delivery, Silence

Subject = tuple[str, str, Flow | None]
_GONE = ConditionResult(False, True, None, "no longer exists, or its rule does not")


def evaluate(*, now: datetime) -> None:
    """Evaluate every rule once. An unknown figure changes no alert."""
    rules = list(AlertRule.objects.filter(enabled=True))
    unresolved = Alert.objects.filter(resolved_at=None).select_related("rule", "flow")
    open_alerts = {(alert.rule_id, alert.subject): alert for alert in unresolved}
    silences = list(Silence.objects.filter(starts_at__lte=now, ends_at__gt=now))
    conditions = {rule.pk: rule.condition for rule in rules}
    changed = []
    for rule, subject, reading in _readings(rules, conditions, now):
        alert = open_alerts.pop((rule.pk, subject[0]), None)
        left = _step(rule, conditions[rule.pk], subject, alert, reading, silences, now)
        if left is not None and _update_sentence(left, reading):
            changed.append(left)
    _write_sentences(changed)
    for alert in open_alerts.values():
        _resolve(alert, _GONE, now)


def _write_sentences(alerts: Sequence[Alert]) -> None:
    """Plain SQL: in an outage of a site the sentences of thousands of alerts change at once."""
    if not alerts:
        return
    name = connection.ops.quote_name
    statement = (
        f"UPDATE {name(Alert._meta.db_table)} SET {name('value')} = %s, {name('sentence')} = %s"  # noqa: S608
        f" WHERE {name('id')} = %s AND {name('resolved_at')} IS NULL"
    )
    with connection.cursor() as cursor:
        cursor.executemany(statement, [(one.value, one.sentence, one.pk) for one in alerts])


def is_silenced(alert: Alert, silences: Sequence[Silence]) -> bool:
    return any(
        one.flow_id in {None, alert.flow_id}
        and one.rule_id in {None, alert.rule_id}
        and (one.cluster_id is None or one.cluster_id in _clusters_of(alert))
        and (one.runner_id is None or alert.subject == f"runner:{one.runner_id}")
        for one in silences
    )


def _clusters_of(alert: Alert) -> set[int]:
    return {alert.flow.source_id, alert.flow.target_id} if alert.flow else set()


def _readings(
    rules: list[AlertRule], conditions: Mapping[int, Condition], now: datetime
) -> Iterator[tuple[AlertRule, Subject, ConditionResult]]:
    runner_rules = [rule for rule in rules if rule.kind in OF_RUNNERS]
    flow_rules = [rule for rule in rules if rule.kind not in OF_RUNNERS]
    for flow, known in facts.flow_facts(now):
        subject = (f"flow:{flow.pk}", flow.label.replace("->", "→"), flow)
        for rule in rules_of(flow_rules, flow.pk):
            yield rule, subject, read_flow(conditions[rule.pk], known, now)
    for runner, seen in facts.runner_facts(now):
        for rule in runner_rules:
            subject = (f"runner:{runner.pk}", f"Runner {runner.name}", None)
            yield rule, subject, read_runner(conditions[rule.pk], seen, now)


def _step(
    rule: AlertRule,
    condition: Condition,
    subject: Subject,
    alert: Alert | None,
    reading: ConditionResult,
    silences: Sequence[Silence],
    now: datetime,
) -> Alert | None:
    """Apply one reading to an alert; returns the alert if it is still open."""
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
        _resolve(alert, reading, now)
        return None
    if alert is None:
        return None
    if step == "fire":
        _fire(alert, reading, now)
    if alert.state == AlertState.FIRING and alert.told_at is None:
        _notify_unless_silenced(alert, silences, now)
    return alert


def _open(
    rule: AlertRule, subject: Subject, reading: ConditionResult, now: datetime
) -> Alert | None:
    """The new alert; None when another process opens it at the same moment."""
    key, name, flow = subject
    new = Alert(
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
    Alert.objects.bulk_create([new], ignore_conflicts=True)
    return Alert.objects.filter(rule=rule, subject=key, resolved_at=None, since=now).first()


def _fire(alert: Alert, reading: ConditionResult, now: datetime) -> None:
    changes = {"fired_at": now, "value": reading.value, "sentence": reading.sentence}
    if move_all(Alert.objects.filter(pk=alert.pk), state=AlertState.FIRING, **changes):
        move(alert, AlertState.FIRING)
        for name, value in changes.items():
            setattr(alert, name, value)


def _update_sentence(alert: Alert, reading: ConditionResult) -> bool:
    """Update value and sentence of an open alert; True if they changed."""
    if reading.sentence == alert.sentence or not reading.holds:
        return False
    alert.value, alert.sentence = reading.value, reading.sentence
    return True


def _notify_unless_silenced(alert: Alert, silences: Sequence[Silence], now: datetime) -> None:
    """Queue `firing` once, when no silence covers the alert; never after acknowledgement."""
    if is_silenced(alert, silences) or alert.acknowledged_at is not None:
        return
    unsent = Alert.objects.filter(pk=alert.pk, state=AlertState.FIRING, told_at=None)
    with transaction.atomic():
        if unsent.update(told_at=now):
            _queue(alert, "firing", now)


def _resolve(alert: Alert, reading: ConditionResult, now: datetime) -> None:
    """Delete a pending alert; resolve a firing one and notify the channels that got `firing`."""
    if alert.state == AlertState.PENDING:
        Alert.objects.filter(pk=alert.pk, state=AlertState.PENDING).delete()
        return
    firing = Alert.objects.filter(pk=alert.pk, state=AlertState.FIRING)
    ended = {"resolved_at": now, "sentence": reading.sentence}
    with transaction.atomic():
        notified = Delivery.objects.filter(alert=alert, what="firing").exists()
        if move_all(firing, state=AlertState.RESOLVED, **ended) and notified:
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
