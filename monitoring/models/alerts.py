"""AlertRule, Alert and Silence."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import CharField, Exists, F, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Cast, Concat
from django.utils import timezone

from mirrors.domain.access.grants import INSTALLATION, Reach, Subject
from mirrors.domain.access.rights import Right
from mirrors.models import Cluster, Flow, Runner
from mirrors.models.access.grants import Owned
from mirrors.models.base import StateField
from monitoring.domain.alerts.rules import KINDS, OF_RUNNERS, Condition
from monitoring.domain.alerts.states import ALERT, AlertState
from monitoring.models.channels import Channel


class Severity(models.TextChoices):
    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class AlertRule(Owned):
    """A condition for one flow; without a flow, for every flow, also for later ones."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=16, choices=[(kind, kind) for kind in KINDS])
    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, null=True, related_name="alert_rules")
    threshold = models.FloatField(null=True)
    clear_below = models.FloatField(null=True)
    for_seconds = models.PositiveIntegerField(default=0)
    severity = models.CharField(max_length=16, choices=Severity, default=Severity.WARNING)
    enabled = models.BooleanField(default=True)
    runbook = models.CharField(max_length=500, blank=True)
    labels = models.JSONField(default=dict, blank=True)
    # Empty: every enabled channel.
    channels = models.ManyToManyField(Channel, blank=True, related_name="rules")

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """A rule of every flow is shown to everybody, and changed with a grant of everything."""
        found = super().rows_reached(where, right)
        return found | Q(flow=None) if right is Right.VIEW else found

    @property
    def is_of_runners(self) -> bool:
        return self.kind in OF_RUNNERS

    @property
    def asks(self) -> str:
        return KINDS[self.kind][0]  # type: ignore[index]

    @property
    def unit(self) -> str:
        return KINDS[self.kind][1]  # type: ignore[index]

    @property
    def condition(self) -> Condition:
        return Condition(
            kind=self.kind,  # type: ignore[arg-type]
            threshold=self.threshold,
            clear_below=self.clear_below,
            for_s=self.for_seconds,
        )


class Alert(Owned):
    """A violation of one rule by one subject; at most one is open per rule and subject."""

    rule = models.ForeignKey(AlertRule, on_delete=models.SET_NULL, null=True, related_name="alerts")
    rule_name = models.CharField(max_length=100)
    subject = models.CharField(max_length=64)
    subject_name = models.CharField(max_length=255)
    flow = models.ForeignKey(Flow, on_delete=models.SET_NULL, null=True, related_name="alerts")
    severity = models.CharField(max_length=16, choices=Severity)
    state = StateField(ALERT, AlertState.PENDING)
    value = models.FloatField(null=True)
    sentence = models.TextField(blank=True)
    since = models.DateTimeField(default=timezone.now)
    fired_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=["rule", "subject"],
                condition=Q(resolved_at__isnull=True),
                name="one_open_alert_a_subject",
            ),
        )
        indexes = (models.Index(fields=["state", "-fired_at"], name="alerts_by_state"),)

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.subject_name}"

    @property
    def runner(self) -> Runner | None:
        """The runner that it is about, if it is about one that still exists."""
        kind, _, key = self.subject.partition(":")
        return Runner.objects.filter(pk=key).first() if kind == "runner" else None


class Silence(Owned):
    """A period without messages, for a flow, the flows of a cluster, a runner, or everything.

    With a rule it is only about that rule.

    One that begins later is a maintenance window.
    """

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, null=True, related_name="silences")
    cluster = models.ForeignKey(
        Cluster, on_delete=models.CASCADE, null=True, related_name="silences"
    )
    rule = models.ForeignKey(
        AlertRule, on_delete=models.CASCADE, null=True, related_name="silences"
    )
    runner = models.ForeignKey(Runner, on_delete=models.CASCADE, null=True, related_name="silences")
    starts_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField()
    who = models.CharField(max_length=150)
    reason = models.CharField(max_length=500, blank=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"silence {self.pk} until {self.ends_at}"

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """One of all flows is shown to everybody, and ended with a grant of everything."""
        of_cluster = Q(flow=None, cluster__in=Cluster.within(where, right))
        of_runner = Q(flow=None, cluster=None, runner__in=Runner.within(where, right))
        found = super().rows_reached(where, right) | of_cluster | of_runner
        of_all = Q(flow=None, cluster=None, runner=None)
        return found | of_all if right is Right.VIEW else found

    @property
    def access_subject(self) -> Subject:
        owner = self.flow or self.cluster or self.runner
        return owner.access_subject if owner else INSTALLATION


def unsilenced_alerts(now: datetime) -> QuerySet[Alert]:
    """Firing alerts that no silence covers: `evaluation.is_silenced` as a query."""
    key = Concat(Value("runner:"), Cast(F("runner"), CharField()), output_field=CharField())
    silenced = Silence.objects.alias(subject=key).filter(
        Q(runner=None) | Q(subject=OuterRef("subject")),
        Q(flow=None) | Q(flow=OuterRef("flow")),
        Q(rule=None) | Q(rule=OuterRef("rule")),
        Q(cluster=None) | Q(cluster=OuterRef("flow__source")) | Q(cluster=OuterRef("flow__target")),
        starts_at__lte=now,
        ends_at__gt=now,
    )
    return Alert.objects.filter(~Exists(silenced), state=AlertState.FIRING)
