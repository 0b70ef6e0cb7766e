"""Runner: a Spark application that runs flows. RunnerLog: its log. Host: a worker host's lease.

Sighting: process liveness.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone

from mirrors.domain.access.grants import Reach, Subject
from mirrors.domain.access.rights import Right
from mirrors.domain.runners.host_leases import MOVE_WITHIN, HostLease, LeasedRunner, hosts_of
from mirrors.domain.runners.reconciler import RunnerHealth, runner_health
from mirrors.domain.states.runners import RUNNER, RunnerState
from mirrors.models.access.grants import Owned
from mirrors.models.base import StateField


class Runner(Owned):
    """Only workers on `host` supervise it: pid and start tick have no meaning elsewhere."""

    name = models.CharField(max_length=100, unique=True)
    master = models.CharField(max_length=255)
    slots = models.PositiveIntegerField()
    host = models.CharField(max_length=255, blank=True)
    # Hosts that take it over when the lease of `host` ends: names with commas, or `*` for any.
    failover_hosts = models.CharField(max_length=1000, blank=True)
    # Its host has confirmed that the process obeys the host's lease.
    is_leased = models.BooleanField(default=False)
    # The last time another host took it over.
    moved_at = models.DateTimeField(null=True)
    moved_from = models.CharField(max_length=255, blank=True)
    move_reason = models.TextField(blank=True)
    # A person moves it: the host that takes it over next (`Runner.wanted_host`).
    move_to = models.CharField(max_length=255, blank=True)
    move_requested_by = models.CharField(max_length=150, blank=True)
    move_requested_at = models.DateTimeField(null=True)
    # Runners of one pool share their flows (`domain.runners.pools`); empty for none.
    pool = models.CharField(max_length=63, blank=True, default="", db_default="")
    # Flows move to and from it without a person.
    auto_balance = models.BooleanField(default=False, db_default=False)
    # Since when it copies more than its share of the pool; null while it does not.
    uneven_since = models.DateTimeField(null=True)
    state = StateField(RUNNER, RunnerState.ABSENT)
    reason = models.TextField(blank=True)
    since = models.DateTimeField(default=timezone.now)
    pid = models.PositiveIntegerField(null=True)
    start_tick = models.BigIntegerField(null=True)
    started_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    # How many processes in a row died before they were ready.
    failed_starts = models.PositiveIntegerField(default=0)
    slots_used = models.PositiveIntegerField(null=True)
    rss_bytes = models.BigIntegerField(null=True)
    # Bytes of its parts: driver, jvm, workers.
    memory = models.JSONField(default=dict, blank=True)
    application_id = models.CharField(max_length=255, blank=True)
    spark_ui = models.BooleanField(default=False)
    # A directory on its host, or an address that Spark can write to; empty for no event log.
    event_log = models.CharField(max_length=500, blank=True)
    # Reported: where its UI is, and why UI or event log are missing although they are set.
    spark_ui_url = models.CharField(max_length=300, blank=True)
    spark_warnings = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    # A person deletes it: the worker on its host ends its process, then removes the row.
    retired_at = models.DateTimeField(null=True)
    retired_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def health(self, now: datetime) -> RunnerHealth:
        """Its health now; `state` is only its own last report, of `seen_at`."""
        age = None if self.seen_at is None else (now - self.seen_at).total_seconds()
        return runner_health(state=self.state, reason=self.reason, report_age_s=age)

    @classmethod
    def rows_reached(cls, where: Reach, right: Right) -> Q:
        """Runners host flows of several teams, so a grant on a flow only shows its runner."""
        if right is not Right.VIEW:
            return Q(pk__in=())
        flows: Any = cls._meta.get_field("flows").related_model
        return Q(pk__in=flows.within(where, right).values("runner"))

    @property
    def access_subject(self) -> Subject:
        return Subject(name=self.name)

    @property
    def health_now(self) -> RunnerHealth:
        return self.health(timezone.now())

    def wanted_host(self, now: datetime) -> str:
        """The host to which a person moves it now; empty when the request is too old."""
        at = self.move_requested_at
        return self.move_to if at is not None and now - at < MOVE_WITHIN else ""

    @property
    def wanted_host_now(self) -> str:
        return self.wanted_host(timezone.now())

    def as_leased(self, *, is_needed: bool, now: datetime | None = None) -> LeasedRunner:
        return LeasedRunner(
            name=self.name,
            host=self.host,
            others=hosts_of(self.failover_hosts),
            is_leased=self.is_leased,
            is_needed=is_needed and self.retired_at is None,
            may_live=self.state not in {RunnerState.ABSENT, RunnerState.LOST},
            wanted=self.wanted_host(now or timezone.now()),
            wanted_by=self.move_requested_by,
            has_started=self.state in {RunnerState.READY, RunnerState.DEGRADED},
            moved_from=self.moved_from,
            moved_at=self.moved_at,
        )


class Host(models.Model):
    """A machine whose worker supervises runners. Its times are those of the database's clock."""

    name = models.CharField(max_length=255, unique=True)
    renewed_at = models.DateTimeField()
    # Since when it has renewed its lease without an interruption.
    held_since = models.DateTimeField()
    # A person drains it: its runners move to other hosts, and it accepts no new ones.
    draining_since = models.DateTimeField(null=True)
    draining_by = models.CharField(max_length=150, blank=True, default="", db_default="")

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    @property
    def lease(self) -> HostLease:
        return HostLease(
            name=self.name,
            renewed_at=self.renewed_at,
            held_since=self.held_since,
            draining_since=self.draining_since,
            draining_by=self.draining_by,
        )


class RunnerLog(Owned):
    """The last lines of a runner's log, stored by the worker on its host."""

    parent = "runner"

    runner = models.OneToOneField(Runner, on_delete=models.CASCADE, related_name="log")
    lines = models.JSONField(default=list)
    # Identifies the version of the file that was read; an unchanged file is not read again.
    mark = models.CharField(max_length=100)
    written_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"log of runner {self.runner_id}"


class Sighting(models.Model):
    """One row per process that must be alive (beat, each worker); the process updates it."""

    name = models.CharField(max_length=255, unique=True)
    kind = models.CharField(max_length=32)
    host = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
