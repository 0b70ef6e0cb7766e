"""Sample rows for page tests, and how a test finds an error at its field."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import zlib
from datetime import timedelta
from typing import Any

from django.utils import timezone

from mirrors.domain.audit.actors import RECONCILER, kind_of
from mirrors.domain.failover.runbook.steps import STEPS
from mirrors.domain.gaps.lost_ranges import GapFacts
from mirrors.domain.transforms.evaluation import EvaluatedRecord, RecordParts, SampledRecord
from mirrors.domain.transforms.preview import compare_record, totals_of
from mirrors.models import (
    Cluster,
    ConflictKey,
    ConflictReport,
    Drift,
    FailoverRun,
    FailoverStep,
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    Job,
    RulePreview,
    Runner,
    TopicConfigs,
    TopicPreview,
    Transition,
)
from mirrors.services import account
from monitoring.domain.costs import month_of
from monitoring.models import CompressionReading, MonthlyUsage, TransferPrice

_numbers = itertools.count(1)


def cluster(alias: str = "", **facts: Any) -> Cluster:
    alias = alias or f"c{next(_numbers)}"
    return Cluster.objects.create(alias=alias, **{"bootstrap_servers": f"{alias}:9092", **facts})


def runner(name: str = "default", **facts: Any) -> Runner:
    defaults = {"master": "local[4,4]", "slots": 4, **facts}
    return Runner.objects.get_or_create(name=name, defaults=defaults)[0]


def flow(source: Cluster | None = None, target: Cluster | None = None, **facts: Any) -> Flow:
    """A running flow with fresh figures, unless said otherwise."""
    now = timezone.now()
    running = {"desired_state": "running", "observed_state": "running", "as_of": now, "since": now}
    return Flow.objects.create(
        source=source or cluster(),
        target=target or cluster(),
        **{"runner": runner(), **running, **facts},
    )


def topic(of: Flow, name: str = "orders", **facts: Any) -> FlowTopic:
    """A topic whose partitions owe `offset_lag` together; None: nobody knows it of any."""
    now = timezone.now()
    lag = {"state": "in_sync", "offset_lag": 0, "time_lag_ms": 0, "partitions": 3}
    remote = {"remote_topic": f"{of.source.alias}.{name}", "as_of": now}
    values = {**lag, **remote, **facts}
    row = FlowTopic.objects.create(flow=of, topic=name, **{**_owed(values), **values})
    sum_up(of)
    return row


def owes(of: Flow, topic: str = "", **figures: Any) -> None:
    """The topic, or every topic of the flow, has these figures now."""
    rows = FlowTopic.objects.filter(flow=of)
    for row in rows.filter(topic=topic) if topic else rows:
        values = {"partitions": row.partitions, "offset_lag": row.offset_lag, **figures}
        FlowTopic.objects.filter(pk=row.pk).update(**{**_owed(values), **figures})
    sum_up(of)


def sum_up(of: Flow) -> None:
    """The flow's account, from its topics as they are now."""
    rows = FlowTopic.objects.filter(flow=of)
    account.store(flow=of, rows=rows, not_visible="", as_of=timezone.now())


def silence(of: Flow, *, seconds: float) -> None:
    """Its source was last observed that long ago; its runner still reports."""
    seen = timezone.now() - timedelta(seconds=seconds)
    FlowTopic.objects.filter(flow=of).update(observed_at=seen)
    FlowPartition.objects.filter(flow=of).update(as_of=seen)
    sum_up(of)


def _owed(values: dict[str, Any]) -> dict[str, Any]:
    lag, count = values["offset_lag"], values["partitions"]
    unknown = count if lag is None else 0
    state = "unknown" if lag is None else "behind" if lag else "in_step"
    return {
        "owed": lag or 0,
        "least": lag or 0,
        "unknown_partitions": unknown,
        "certainty": "unknown" if lag is None else "at_most" if lag else "counted",
        "states": {state: count},
        "account_state": state,
        "observed_at": timezone.now(),
    }


def partition(of: Flow, name: str = "orders", number: int = 0, **facts: Any) -> FlowPartition:
    figures = {"position": 100, "source_end": 101, "source_stable_end": 100, "offset_lag": 0}
    rest = {"state": "in_sync", "time_lag_ms": 0, "lane": "record", "as_of": timezone.now()}
    return FlowPartition.objects.create(
        flow=of,
        topic=name,
        partition=number,
        remote_topic=f"{of.source.alias}.{name}",
        **{**figures, **rest, **facts},
    )


def job(of: Flow, **facts: Any) -> Job:
    return Job.objects.create(
        flow=of, runner=of.runner, **{"generation": 1, "attempt": 1, "state": "running", **facts}
    )


def gap(of: Flow, **facts: Any) -> Gap:
    """Offsets 10 to 29 were deleted before they were copied."""
    now = timezone.now()
    lost = GapFacts(kind="deleted", position=10, first=30, end=50)
    numbers = {"position": 10, "first_available": 30, "source_end": 50}
    numbers |= {"first_lost": 10, "last_lost": 29, "count": 20}
    rest = {"kind": lost.kind, "reason": "They were deleted.", "opened_at": now, "seen_at": now}
    return Gap.objects.create(
        flow=of,
        topic="orders",
        partition=2,
        **{**numbers, **rest, "facts": dataclasses.asdict(lost), **facts},
    )


def topic_preview(of: Flow, **facts: Any) -> TopicPreview:
    """A worker listed the topics that `orders.*, payments` selects on the flow's source."""
    now = timezone.now()
    rows = [
        {"topic": name, "remote_topic": "" if why else f"{of.source.alias}.{name}",
         "replicated": not why, "reason": why or "matches topics (orders.*)"}
        for name, why in (
            ("orders", ""),
            ("orders.eu", ""),
            ("orders.replica", "matches topics.exclude (.*[\\-\\.]replica)"),
        )
    ]  # fmt: skip
    typed = {"source": of.source.alias, "target": of.target.alias, "topics": "orders.*, payments"}
    rest = {"requested_by": "admin", "requested_at": now, "ended_at": now, "typed": typed}
    rest |= {"selected": 2, "excluded": 1, "rows": rows, "missing": ["payments"]}
    return TopicPreview.objects.create(source=of.source, target=of.target, **{**rest, **facts})


def conflict_report(of: Flow, **facts: Any) -> ConflictReport:
    """A report with one conflicting key, whose values differ."""
    now = timezone.now()
    rest = {
        "window_seconds": 60,
        "period_seconds": 3600,
        "topics": 1,
        "requested_by": "ann",
        "requested_at": now,
        "ended_at": now,
        "as_of": now,
        "keys": 1,
        "differing": 1,
        "records": 9,
        "copies": 4,
        "sentence": "1 key was written on both sides.",
    }
    report = ConflictReport.objects.create(flow=of, **{**rest, **facts})
    sides = {
        f"{side}_{name}": value
        for side, digest in (("source", "0a" * 16), ("target", "0b" * 16))
        for name, value in {
            "partition": 0, "offset": 7, "at": now, "value": digest, "last_offset": 9,
            "last_value": digest,
        }.items()
    }  # fmt: skip
    ConflictKey.objects.create(
        report=report,
        topic="orders",
        digest="c0" * 16,
        text="customer-7",
        conflicts=2,
        agrees=False,
        **sides,
    )
    return report


def rule_preview(of: Flow, **facts: Any) -> RulePreview:
    """One record of each outcome, and a path that none of them has."""
    now = timezone.now()
    parts = RecordParts(b"k", b'{"card": 1}', (("h", b"<x>"),))
    made = (
        EvaluatedRecord("", "", parts),
        EvaluatedRecord("", "", parts._replace(value=b"{}")),
        EvaluatedRecord("", "", None),
        EvaluatedRecord("value", "[CAST_INVALID_INPUT] It cannot be cast.", None),
    )
    compared = [
        compare_record(SampledRecord(0, offset, 1_700_000_000_000 + offset, False, parts), row)
        for offset, row in enumerate(made)
    ]
    path = {"field": "value", "function": "json_drop", "path": "crad", "column": "value"}
    found = {
        "rule": 1,
        "effect": "rule 1 (orders) drops records and changes value",
        "totals": dataclasses.asdict(totals_of(compared)),
        "partitions": [
            {"partition": 0, "records": 4, "end": 4, "reason": ""},
            {"partition": 1, "records": 0, "end": None, "reason": "It has no leader."},
        ],
        "left_out": 0,
        "paths": [{**path, "records": 0}, {**path, "path": "card", "records": 4}],
        "rows": [row.to_dict("primary.orders") for row in compared],
    }
    rest = {"requested_by": "admin", "requested_at": now, "ended_at": now, "as_of": now}
    rest |= {"topic": "orders", "count": 20, "rules": "", "is_edited": True}
    rest |= {"result": packed(found)}
    return RulePreview.objects.create(flow=of, **{**rest, **facts})


def packed(found: dict[str, Any]) -> bytes:
    """As the result of a preview of rules is stored."""
    return zlib.compress(json.dumps(found).encode())


def costs(of: Flow) -> None:
    """Two topics sent 100 GB this month, at 0.50 EUR each, with a budget of 40 EUR. One was
    measured."""
    now = timezone.now()
    month = month_of(now)
    for topic, size in (("orders", 90), ("debug", 10)):
        MonthlyUsage.objects.create(
            flow=of, topic=topic, month=month.date(), bytes=size * 10**9, since=month, until=now
        )
    TransferPrice.objects.create(
        source=of.source, target=of.target, per_gb="0.5", currency="EUR", monthly_budget=40,
        set_by="ann", set_at=now,
    )  # fmt: skip
    sizes = {"codec_bytes": 600_000, "batches_bytes": 950_000, "both_bytes": 590_000}
    sample = {"codec": "lz4", "records": 3_000, "batches": 1_000, "bytes": 1_000_000, **sizes}
    CompressionReading.objects.create(
        flow=of, samples={"orders": sample}, failed={"debug": "No leader."}, requested_by="ann",
        requested_at=now, ended_at=now,
    )  # fmt: skip


CONFIGS = [
    {"key": "retention.ms", "source": "5", "target": "7", "source_set": True, "target_set": True,
     "verdict": "differs", "reason": "The sync task topic configs sets it at its next run."},
    {"key": "flush.ms", "source": "9", "target": "9", "source_set": False, "target_set": False,
     "verdict": "same", "reason": ""},
]  # fmt: skip


def topic_configs(of: Flow, topic: str = "orders") -> TopicConfigs:
    """A reading of both clusters: one config differs, another is an equal default."""
    now = timezone.now()
    return TopicConfigs.objects.create(
        flow=of, topic=topic, rows=CONFIGS, requested_at=now, ended_at=now, requested_by="ann"
    )


def application_run(of: Flow) -> FailoverRun:
    """A failover of the topics of shop that succeeded and left 41 records."""
    now = timezone.now()
    run = FailoverRun.objects.create(
        flow=of,
        kind="failover",
        state="succeeded",
        mark="app",
        requested_by="ann",
        why="Migration of the shop.",
        reason="One application runs on backup. 41 records were not replicated.",
        scope={"topics": [r"shop\..*"], "groups": []},
        result={"totals": {"loss": 41, "moved": 2, "refused_ms": 4_800}},
        started_at=now - timedelta(seconds=9),
        ended_at=now,
    )
    for number, step in enumerate(STEPS, start=1):
        facts = {"name": step.name, "does": step.title, "state": "succeeded"}
        FailoverStep.objects.create(run=run, number=number, **facts)
    return run


def drift(of: Flow, **facts: Any) -> Drift:
    """Somebody set the retention of a remote topic by hand."""
    now = timezone.now()
    rest = {"kind": "topic config", "name": f"{of.source.alias}.orders", "key": "retention.ms"}
    rest |= {"expected": "604800000", "found": "3600000", "wanted": "604800000", "place": "p"}
    rest |= {"reason": "retention.ms was set to 3600000 by hand; it was 604800000."}
    return Drift.objects.create(flow=of, opened_at=now, seen_at=now, **{**rest, **facts})


def transition(of: Flow, **facts: Any) -> Transition:
    who = facts.get("who", RECONCILER)
    return Transition.objects.create(
        **{
            "kind": kind_of(who),
            "subject": "flow",
            "subject_id": of.pk,
            "field": "observed_state",
            "name": of.name,
            "who": who,
            "when": timezone.now() - timedelta(seconds=5),
            "from_state": "starting",
            "to_state": "running",
            "why": "Its slices copy.",
            **facts,
        }
    )


def busy() -> Flow:
    """One flow of everything: topics copied and skipped, partitions, jobs, transitions."""
    primary, backup = cluster("primary"), cluster("backup", reachable=False, reason="Refused.")
    one = flow(
        primary, backup, properties={"topics": "orders", "consumer.fetch.max.bytes": "16777216"}
    )
    topic(one, "orders", offset_lag=4112, time_lag_ms=38_000, state="lagging")
    topic(one, "__internal", remote_topic=None, state="skipped", reason="Matches __.*")
    for number in range(3):
        partition(one, number=number)
    job(one)
    job(one, state="failed", ended_at=timezone.now(), error="The runner 4211 is gone.")
    transition(one)
    drift(one, pk=one.pk)
    return one


def error_at(text: str, field: str) -> str:
    """The error sentences that stand at a field, empty when there are none."""
    found = re.search(rf'<ul class="errorlist" id="id_{field}-errors">(.*?)</ul>', text, re.S)
    return found[1] if found else ""
