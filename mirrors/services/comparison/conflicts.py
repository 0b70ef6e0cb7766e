"""Reports of conflicting keys: requested, read by a runner, stored.

- A worker on the runner's host looks up the ranges to read, hands them to the runner as a file,
  and later collects its response. No worker waits for the runner.
- A report needs a flow in each direction with the same topic names, and the runner of one of both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.access.rights import Right
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.conflicts import (
    SOURCE,
    TARGET,
    ConflictingKey,
    ConflictRequest,
    ConflictResponse,
    ReadRange,
    count_differing,
    ranges_of,
    report_sentence,
    shared_topics,
)
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.formatting import without_nul
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.models import ConflictKey, ConflictReport, Flow, FlowPartition, FlowTopic, Runner
from mirrors.models.access.grants import demand_here, has_right
from mirrors.models.runners import RunnerState
from mirrors.services.clock import milliseconds
from mirrors.services.errors import Conflict
from mirrors.services.process_liveness import is_served
from mirrors.services.run_lifecycle import send_on_commit, unexpected_error_text
from mirrors.services.runners.processes import directory_of
from mirrors.services.topics.readings import check_rate

WINDOW_S, PERIOD_S = 60, 3600
MOST_WINDOW_S, MOST_PERIOD_S = 86_400, 604_800
# A scheduled report reads this far back.
SCHEDULED_PERIOD_S = 86_400
# Then the runner counts as dead.
ANSWER_S: Final = 600.0
_LIST_S: Final = 20.0
_CLIENT_ID: Final = "understudy-conflicts"


def request_report(
    *, flow: Flow, who: str, window_seconds: int = WINDOW_S, period_seconds: int = PERIOD_S
) -> ConflictReport:
    """Let a runner find conflicting keys. Raises Conflict with the reason why none can.

    One open report per flow: Conflict otherwise. TooMany above the limit per minute.
    """
    check_rate(ConflictReport, who, timezone.now(), "reports")
    return _create(flow, who, window_seconds=window_seconds, period_seconds=period_seconds)


def request_scheduled(*, flow: Flow, who: str) -> None:
    """The report of a scheduled comparison, for a flow whose opposite copies the same names.

    A refusal is stored as a failed report, so that nobody waits for one.
    """
    if not flow.spec.settings.skip_replicated:
        return
    facts = {"window_seconds": WINDOW_S, "period_seconds": SCHEDULED_PERIOD_S}
    try:
        _create(flow, who, **facts)
    except UnderstudyError as error:
        now = timezone.now()
        ConflictReport.objects.create(
            flow=flow,
            **facts,
            requested_by=who,
            requested_at=now,
            ended_at=now,
            error=error.message,
        )


def _create(flow: Flow, who: str, **facts: int) -> ConflictReport:
    now = timezone.now()
    mine = ConflictReport.objects.filter(flow=flow, ended_at=None)
    if mine.filter(requested_at__gt=now - ConflictReport.lost_after).exists():
        raise Conflict(f"A conflict report of {flow.name} is already being made. Wait for it.")
    opposite = _opposite(flow)
    demand_here(opposite)
    topics = _topics(flow, opposite)
    report = ConflictReport.objects.create(
        flow=flow,
        runner=_runner(flow),
        **facts,
        topics=len(topics),
        requested_by=who[:150],
        requested_at=now,
    )
    send_on_commit("mirrors.tasks.find_conflicts", report.pk)
    return report


def advance_report(*, report_id: int) -> str:
    """Hand the request over, or collect the response if there is one.

    Return the host whose worker calls this again; empty at the end. Never waits for the runner.
    """
    rows = ConflictReport.objects.select_related("flow__source", "flow__target", "runner")
    report = rows.filter(pk=report_id, ended_at=None).first()
    if report is None:
        return ""
    with _storing_failures(report):
        runner = report.runner
        if runner is None or _refusal(runner):
            raise Conflict(_refusal(runner) if runner else "The runner was deleted.")
        if runner.host != settings.UNDERSTUDY_HOST:
            return str(runner.host)
        directory = directory_of(runner)
        if report.handed_at is None:
            launcher.CONFLICTS.write_request(directory, report.pk, _request(report))
            ConflictReport.objects.filter(pk=report.pk).update(handed_at=timezone.now())
            return str(runner.host)
        response = launcher.CONFLICTS.read_response(directory, report.pk)
        if response is not None:
            launcher.CONFLICTS.remove(directory, report.pk)
            _store(report, response)
        elif (timezone.now() - report.handed_at).total_seconds() > ANSWER_S:
            launcher.CONFLICTS.remove(directory, report.pk)
            raise Conflict(
                f"The runner {runner.name} did not answer within {ANSWER_S:.0f} s. It is busy, or "
                "it was started before an update: restart it then, and request another report."
            )
        else:
            return str(runner.host)
    return ""


def newest_reports() -> list[ConflictReport]:
    """Of each flow the newest report that did not fail."""
    ended = ConflictReport.objects.filter(keys__isnull=False).order_by()
    newest = ended.values("flow").annotate(newest=Max("pk")).values("newest")
    return list(ConflictReport.objects.filter(pk__in=newest))


def with_keys(rows: QuerySet[Any], user: Any, on: Flow | ConflictReport) -> QuerySet[Any]:
    """Annotates `key`: the key for people who may read records of both flows, else its digest."""
    shown = "text" if _may_read_records(user, on) else "digest"
    return rows.annotate(key=Cast(F(shown), TextField()))


def _may_read_records(user: Any, on: Flow | ConflictReport) -> bool:
    if has_right(user, Right.OPERATE):
        return True
    flow = on if isinstance(on, Flow) else on.flow
    # A scheduled report reads the records of the opposite flow without asking for its right.
    opposite = Flow._base_manager.filter(source=flow.target_id, target=flow.source_id)
    return all(has_right(user, Right.OPERATE, each) for each in (flow, *opposite))


def _opposite(flow: Flow) -> Flow:
    rows = Flow._base_manager.filter(source=flow.target, target=flow.source)
    found = rows.select_related("source", "target", "runner").first()
    if found is None:
        raise Conflict(
            f"Only {flow.name} exists: no flow copies from {flow.target.alias} to "
            f"{flow.source.alias}, so no copy can overwrite a record there. Create that flow with "
            "skip.replicated=true to replicate in both directions."
        )
    return found


def _topics(flow: Flow, opposite: Flow) -> list[str]:
    there, back = (
        dict(
            FlowTopic.objects.filter(flow=one, remote_topic__isnull=False).values_list(
                "topic", "remote_topic"
            )
        )
        for one in (flow, opposite)
    )
    topics = shared_topics(there, back)
    if not topics:
        raise Conflict(
            f"{flow.name} and {opposite.name} have no topic in common that both copy under its own "
            "name. Conflicts need replication.policy.class=IdentityReplicationPolicy in both."
        )
    return topics


def _runner(flow: Flow) -> Runner:
    """The flow's runner, or that of the opposite flow."""
    refusal = _refusal(flow.runner)
    if not refusal:
        return flow.runner
    other: Runner = _opposite(flow).runner
    if _refusal(other):
        raise Conflict(refusal)
    return other


def _refusal(runner: Runner) -> str:
    """Why the runner cannot read now; empty if it can."""
    if runner.state not in (RunnerState.READY, RunnerState.DEGRADED) or not runner.host:
        return (
            f"The runner {runner.name} does not run, and Spark finds conflicting keys there. Start "
            "a flow of it, then request the report again."
        )
    if not is_served(runner.host):
        return (
            f"No worker serves {runner.host}, the host of the runner {runner.name}. Start one "
            "there, then request the report again."
        )
    return ""


def _request(report: ConflictReport) -> ConflictRequest:
    """Calls both clusters. Raises UnderstudyError."""
    flow = report.flow
    opposite = _opposite(flow)
    topics = _topics(flow, opposite)
    ConflictReport.objects.filter(pk=report.pk).update(as_of=timezone.now(), topics=len(topics))
    since = milliseconds(timezone.now() - timedelta(seconds=report.period_seconds))
    spec = flow.spec
    return ConflictRequest(
        name=flow.name,
        source=spec.source,
        target=spec.target,
        ranges=(
            *_ranges(SOURCE, spec.source, flow, topics, since),
            *_ranges(TARGET, spec.target, opposite, topics, since),
        ),
        window_ms=report.window_seconds * 1000,
    )


def _ranges(
    side: int, spec: ClusterSpec, reader: Flow, topics: list[str], since: int
) -> list[ReadRange]:
    """`reader`: the flow whose source this side is."""
    rows = FlowPartition.objects.filter(flow=reader, topic__in=topics)
    partitions: list[TopicPartition] = list(rows.values_list("topic", "partition"))
    with Admin(spec, client_id=_CLIENT_ID) as admin:
        firsts = admin.list_offsets(partitions, since, deadline_s=_LIST_S)
        # Records of open transactions are still to come.
        ends = admin.list_offsets(partitions, "stable", deadline_s=_LIST_S)
    for error in (*firsts.failed.values(), *ends.failed.values()):
        raise error
    return ranges_of(side, firsts.done, ends.done)


@transaction.atomic
def _store(report: ConflictReport, response: ConflictResponse) -> None:
    if response.error:
        raise Conflict(response.error)
    differing = count_differing(response.found)
    sentence = report_sentence(
        response,
        topics=report.topics,
        window_s=report.window_seconds,
        period_s=report.period_seconds,
        differing=differing,
    )
    ConflictKey.objects.bulk_create(_row(report, key) for key in response.found)
    ConflictReport.objects.filter(pk=report.pk, ended_at=None).update(
        ended_at=timezone.now(),
        keys=response.keys,
        differing=differing,
        records=response.records,
        copies=response.copies,
        limits=list(response.limits),
        sentence=sentence,
    )


def _row(report: ConflictReport, key: ConflictingKey) -> ConflictKey:
    places: dict[str, Any] = {}
    for side, write, last in (
        ("source", key.source, key.source_last),
        ("target", key.target, key.target_last),
    ):
        places |= {
            f"{side}_partition": write.partition,
            f"{side}_offset": write.offset,
            f"{side}_at": None if write.at < 0 else datetime.fromtimestamp(write.at / 1000, UTC),
            f"{side}_value": write.value,
            f"{side}_last_offset": last.offset,
            f"{side}_last_value": last.value,
        }
    return ConflictKey(
        report=report,
        topic=key.topic,
        digest=key.digest,
        text=without_nul(key.text),
        conflicts=key.conflicts,
        agrees=key.agrees,
        **places,
    )


@contextlib.contextmanager
def _storing_failures(report: ConflictReport) -> Iterator[None]:
    """A refusal ends the report with its sentence."""
    try:
        yield
    except UnderstudyError as error:
        _fail(report, error.message)
    except Exception as error:
        _fail(report, unexpected_error_text(error))
        raise


def _fail(report: ConflictReport, error: str) -> None:
    ConflictReport.objects.filter(pk=report.pk, ended_at=None).update(
        ended_at=timezone.now(), error=without_nul(error)
    )
