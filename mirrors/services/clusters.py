"""Clusters: register, change, remove, test the connection, store the last check."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from mirrors.domain.access.grants import Subject
from mirrors.domain.access.rights import Right
from mirrors.domain.audit.actors import RECONCILER
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.schemas import registry
from mirrors.domain.settings.connection import MSK_REGION, MSK_ROLE
from mirrors.domain.settings.references import same_secret
from mirrors.domain.specs import ClusterSpec
from mirrors.domain.standby.flow_definition import references_of
from mirrors.kafka.connection_test.probe import ProbeReport, check_registry, probe
from mirrors.kafka.security import cleartext_logins, egress
from mirrors.kafka.security.oauth import ENDPOINT as OAUTH_ENDPOINT
from mirrors.kafka.security.secrets import check_reference
from mirrors.models import Cluster, ClusterTest, Flow
from mirrors.models.access.grants import demand_here
from mirrors.models.audit.transitions import note
from mirrors.models.clusters import TestState
from mirrors.services import run_lifecycle
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict, TooMany

REFERENCES = ("sasl_password", "ssl_ca", "ssl_certificate", "ssl_key")
TEST_DEADLINE_S = 20.0
LOOK_DEADLINE_S = 10.0
# For each of three calls, after the brokers: the test must end before TEST_LOST_AFTER.
REGISTRY_DEADLINE_S = 5.0
EVERY = timedelta(seconds=25)
UNREACHABLE_EVERY = timedelta(seconds=55)
_UNCHECKED: dict[str, Any] = {"reachable": None, "reason": "", "warnings": [], "checked_at": None}
# Field -> its name on the form: Kafka's key where the form shows one.
CONFIG_KEYS = {
    "bootstrap_servers": "bootstrap.servers",
    "security_protocol": "security.protocol",
    "sasl_mechanism": "sasl.mechanism",
    "sasl_username": "Username",
    "sasl_password": "Password reference",
    "ssl_ca": "CA certificates",
    "ssl_certificate": "Client certificate",
    "ssl_key": "Client key",
}
# On what a right is demanded, as it is in the refusal.
_NEW_REFERENCE = "everything, since a new reference may name a secret of another cluster"
_SHARED_REFERENCE = (
    "everything, since another cluster uses the secret that the new address would get"
)
# A test that has not ended by then has lost its message or its worker.
TEST_LOST_AFTER = timedelta(seconds=45)


def create_cluster(*, spec: ClusterSpec, who: str) -> Cluster:
    """Register a cluster without connecting to it: a worker tests it."""
    _validate(spec)
    try:
        with transaction.atomic():
            cluster = Cluster.objects.create(**dataclasses.asdict(spec))
            note(cluster, what="created", who=who, why=f"At {spec.bootstrap_servers}.")
    except IntegrityError:
        raise _taken(spec.alias) from None
    return cluster


def update_cluster(*, cluster: Cluster, spec: ClusterSpec, who: str) -> Cluster:
    """Change how a cluster is reached; its flows apply the change at their next commit."""
    _validate(spec)
    changed = changed_fields(cluster=cluster, spec=spec)
    if not changed:
        return cluster
    _check_secrets(cluster=cluster, spec=spec)
    try:
        with transaction.atomic():
            locked = Cluster.objects.select_for_update().get(pk=cluster.pk)
            before = locked.spec
            flows = list(_flows_of(locked).select_for_update())
            if "alias" in changed and flows:
                raise Conflict(
                    f"The alias {locked.alias} is part of topic names and positions of "
                    f"{_names(flows)}, so it cannot change. Register another cluster instead."
                )
            for name in changed:
                setattr(locked, name, getattr(spec, name))
            # What the last check found belongs to the old settings.
            for name, value in _UNCHECKED.items():
                setattr(locked, name, value)
            locked.save(update_fields=[*changed, *_UNCHECKED, "updated_at"])
            for flow in flows:
                flow.generation += 1
                # The edit may be the fix, so earlier failures no longer count.
                flow.forgiven_at, flow.retry_at, flow.attempt = timezone.now(), None, 0
                flow.save(update_fields=["generation", "forgiven_at", "retry_at", "attempt"])
                note(flow, what="edited", who=who, why=f"Cluster {locked.alias} was changed.")
            note(locked, what="edited", who=who, why=change_sentence(before, spec))
    except IntegrityError:
        raise _taken(spec.alias) from None
    return locked


def changed_fields(*, cluster: Cluster, spec: ClusterSpec) -> list[str]:
    """Names of the fields that would change, references to secrets included, without values."""
    before, after = dataclasses.asdict(cluster.spec), dataclasses.asdict(spec)
    return [name for name in before if before[name] != after[name]]


def _check_secrets(*, cluster: Cluster, spec: ClusterSpec) -> None:
    """An admin of this cluster alone sends no secret of another one to an address of their choice.

    PermissionDenied for a new reference, which could name such a secret, and for a new address
    while a secret is shared. The identity of the host, with which MSK logs in, is shared always.
    """
    before = cluster.spec
    held, named = set(references_of(before).values()), set(references_of(spec).values())
    identity = [
        (one.properties.get(MSK_REGION), one.properties.get(MSK_ROLE)) for one in (before, spec)
    ]
    if named - held - {""} or (any(identity[1]) and identity[0] != identity[1]):
        demand_here(Subject(name=_NEW_REFERENCE), Right.ADMINISTER)
    moved = _moved_secrets(before, spec)
    others = Cluster._base_manager.exclude(pk=cluster.pk) if moved else ()
    used = [text for other in others for text in references_of(other.spec).values()]
    is_host = any(identity[1]) and before.bootstrap_servers != spec.bootstrap_servers
    if is_host or any(same_secret(text, used) for text in moved):
        demand_here(Subject(name=_SHARED_REFERENCE), Right.ADMINISTER)


def _moved_secrets(before: ClusterSpec, after: ClusterSpec) -> set[str]:
    """References to secrets that an address gets which did not before."""
    old, new = references_of(before), references_of(after)
    endpoints = {one.properties.get(OAUTH_ENDPOINT) for one in (before, after)}
    registries = {one.properties.get(registry.URL) for one in (before, after)}
    is_elsewhere = before.bootstrap_servers != after.bootstrap_servers or len(endpoints) > 1
    places = [(REFERENCES, is_elsewhere), (registry.REFERENCES, len(registries) > 1)]
    found = {
        new[name] for names, moves in places for name in names if moves or new[name] != old[name]
    }
    return found - {""}


def change_sentence(before: ClusterSpec, after: ClusterSpec) -> str:
    """The changed settings with both values: `bootstrap.servers: a:9092 → b:9092`."""
    old, new = (
        {**facts, **facts.pop("properties")}
        for facts in (dataclasses.asdict(before), dataclasses.asdict(after))
    )
    changed = [key for key in {**old, **new} if (old.get(key) or "") != (new.get(key) or "")]
    return "; ".join(
        f"{CONFIG_KEYS.get(key, key)}: {old.get(key) or 'not set'} → {new.get(key) or 'not set'}"
        for key in changed
    )


def restarts_of_update(*, cluster: Cluster, spec: ClusterSpec) -> list[str]:
    """What an edit restarts, one sentence each; empty when no running flow is affected.

    Raises what `update_cluster` would raise, so that a preview never passes a refused edit.
    """
    _validate(spec)
    changed = changed_fields(cluster=cluster, spec=spec)
    if not changed:
        return []
    _check_secrets(cluster=cluster, spec=spec)
    keys = ", ".join(CONFIG_KEYS.get(name, name) for name in changed)
    running = [flow for flow in _flows_of(cluster) if flow.desired_state != "stopped"]
    return [
        f"{flow.name}: its slices stop at a commit and start again with the new {keys}; "
        "no record is lost or repeated."
        for flow in running
    ]


def delete_cluster(*, cluster: Cluster, who: str) -> None:
    with transaction.atomic():
        locked = Cluster.objects.select_for_update().get(pk=cluster.pk)
        flows = list(_flows_of(locked))
        if flows:
            raise Conflict(
                f"{locked.alias} cannot be removed while {_names(flows)} "
                f"{'uses' if len(flows) == 1 else 'use'} it. Remove the flow first."
            )
        note(locked, what="deleted", who=who, why="")
        locked.delete()


def request_test(*, cluster: Cluster, who: str) -> ClusterTest:
    """Store the test that a worker runs."""
    recent = timezone.now() - timedelta(minutes=1)
    asked = ClusterTest.objects.filter(requested_by=who, created_at__gt=recent).count()
    if asked >= settings.UNDERSTUDY_TESTS_PER_MINUTE:
        raise TooMany(
            f"You requested {asked} connection tests within a minute, which is the limit. "
            "Wait a minute and try again."
        )
    test = ClusterTest.objects.create(cluster=cluster, requested_by=who)
    run_lifecycle.enqueue(test)
    return test


def run_test(*, test_id: int, deadline_s: float = TEST_DEADLINE_S) -> bool:
    """Connect to the cluster, in a worker; False when another worker took the test."""
    started = timezone.now()
    queued = ClusterTest.objects.filter(pk=test_id, state=TestState.QUEUED)
    asks = "A worker connects to the cluster."
    if not run_lifecycle.claim_queued(
        queued, state=TestState.RUNNING, reason=asks, started_at=started
    ):
        return False
    test = ClusterTest.objects.select_related("cluster").get(pk=test_id)
    now = milliseconds(timezone.now())
    spec = test.cluster.spec
    report = probe(spec, deadline_s=deadline_s, now=now, measures_distance=True)
    found = check_registry(spec, deadline_s=REGISTRY_DEADLINE_S)
    report = dataclasses.replace(report, registry=found)
    observe_cluster(cluster=test.cluster, report=report)
    return run_lifecycle.end(
        ClusterTest.objects.filter(pk=test_id, state=TestState.RUNNING),
        state=TestState.SUCCEEDED if report.reachable else TestState.FAILED,
        reason=report.message,
        result=report.to_dict(),
    )


def due_clusters() -> list[int]:
    """Clusters to check now: those whose interval has passed, and those of changed flows.

    A cluster that rejected the login is checked half as often, because brokers lock accounts. A
    flow that runs again shows that the cluster responds.
    """
    now = timezone.now()
    here = Q(source=OuterRef("pk")) | Q(target=OuterRef("pk"))
    changed = Flow.objects.filter(here, since__gt=OuterRef("checked_at"))
    rows = Cluster.objects.annotate(
        has_news=Exists(changed), is_read=Exists(changed.filter(observed_state="running"))
    )
    refuses = Q(reachable=False) & (Q(is_read=True) | Q(checked_at__lte=now - UNREACHABLE_EVERY))
    answers = ~Q(reachable=False) & (Q(has_news=True) | Q(checked_at__lte=now - EVERY))
    due = rows.filter(refuses | answers | Q(checked_at=None))
    return list(due.order_by("pk").values_list("pk", flat=True))


def check_cluster(*, cluster_id: int, deadline_s: float = LOOK_DEADLINE_S) -> None:
    """Check a cluster periodically, so that its page is current.

    Skipped when another worker did so meanwhile: an unreachable cluster costs the whole deadline.
    """
    cluster = Cluster.objects.filter(pk=cluster_id).first()
    if cluster is not None and cluster_id in due_clusters():
        report = probe(cluster.spec, deadline_s=deadline_s, now=milliseconds(timezone.now()))
        observe_cluster(cluster=cluster, report=report)


def observe_cluster(*, cluster: Cluster, report: ProbeReport) -> None:
    """Store the result of a check. An unreachable cluster keeps its last id and brokers."""
    seen: dict[str, Any] = {
        "reachable": report.reachable,
        "reason": report.message,
        "warnings": list(report.warnings),
        "checked_at": timezone.now(),
    }
    if report.reachable:
        seen["reached_at"] = seen["checked_at"]
    if report.cluster_id:
        seen |= {"cluster_id": report.cluster_id, "brokers": len(report.brokers)}
    # A check that began before an edit says nothing about the new settings.
    Cluster.objects.filter(pk=cluster.pk, updated_at=cluster.updated_at).update(**seen)


def sweep_tests() -> int:
    """Fail the tests whose message or worker was lost, so that nobody waits forever."""
    old = timezone.now() - TEST_LOST_AFTER
    pending = ClusterTest.objects.filter(
        state__in=[TestState.QUEUED, TestState.RUNNING], created_at__lt=old
    )
    return sum(
        run_lifecycle.end(
            ClusterTest.objects.filter(pk=test.pk, state=test.state),
            state=TestState.FAILED,
            reason=_lost(test),
            who=RECONCILER,
        )
        for test in pending
    )


def _lost(test: ClusterTest) -> str:
    seconds = int(TEST_LOST_AFTER.total_seconds())
    if test.state == TestState.QUEUED:
        return f"No worker ran the test within {seconds} s. Is a Celery worker running?"
    return f"The worker that ran the test was lost: no response in {seconds} s. Test again."


def problems_of(spec: ClusterSpec) -> dict[str, list[str]]:
    """Field -> sentences: rules and restrictions of this deployment; no file or cluster is read."""
    errors = {field: list(texts) for field, texts in spec.validate().items()}
    for name in REFERENCES:
        value = getattr(spec, name)
        if value and name not in errors and (refusal := check_reference(value)):
            errors[name] = [refusal]
    if "bootstrap_servers" not in errors and (refused := egress.refusals(spec.bootstrap_servers)):
        errors["bootstrap_servers"] = refused
    for name, sentences in cleartext_logins.refusals(spec).items():
        errors.setdefault(name, sentences)
    if "properties" not in errors and (refused := _registry_refusals(spec)):
        errors["properties"] = refused
    return errors


def _registry_refusals(spec: ClusterSpec) -> list[str]:
    """What this deployment forbids of the cluster's schema registry."""
    found = [
        f"{name}: {refusal}"
        for name in registry.REFERENCES
        if (text := spec.properties.get(name)) and (refusal := check_reference(text))
    ]
    place = registry.registry_of(spec.alias, spec.properties)
    for url, host, port in place.addresses if place is not None else ():
        found += egress.refusals(f"{host}:{port}")
        if place is not None and (exposed := cleartext_logins.registry_refusal(place, url)):
            found.append(exposed)
    return found


def refused_clusters() -> dict[str, str]:
    """Registered clusters that this deployment refuses to connect to: name -> the first reason."""
    # Only these columns: this runs before a migration has added others.
    names = ("alias", "bootstrap_servers", "security_protocol", "sasl_mechanism", "properties")
    found: dict[str, str] = {}
    for row in Cluster.objects.order_by("alias").values(*names, *REFERENCES):
        refused = [why for name in REFERENCES if row[name] and (why := check_reference(row[name]))]
        spec = ClusterSpec(**row)
        refused += [why for whys in cleartext_logins.refusals(spec).values() for why in whys]
        refused += _registry_refusals(spec)
        if refused:
            found[f"Cluster {row['alias']}"] = refused[0]
    return found


def _validate(spec: ClusterSpec) -> None:
    if errors := problems_of(spec):
        raise InvalidSettings(errors)


def _flows_of(cluster: Cluster):  # type: ignore[no-untyped-def]
    both = Flow.objects.filter(source=cluster) | Flow.objects.filter(target=cluster)
    return both.select_related("source", "target").order_by("pk")


def _names(flows: list[Flow]) -> str:
    return ", ".join(flow.name for flow in flows)


def _taken(alias: str) -> Conflict:
    return Conflict(
        f"A cluster with the alias {alias} is already registered. Choose another alias."
    )
