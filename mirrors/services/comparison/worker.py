"""Runs a comparison for some seconds at a time, so that other tasks get the worker.

The flow's runner reads the records in its Spark if it can, otherwise this worker does. Both keep
the same rows, so a comparison may change from one to the other. It writes to neither cluster. After
a crash, the next worker continues with what is not compared.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any, NamedTuple

from django.db import DatabaseError, transaction
from django.db.models import Count, Q, Sum
from django.utils import timezone

from mirrors.domain.comparison.findings import Aspect, Finding, content_finding
from mirrors.domain.comparison.outcome import Content, judge, sentence
from mirrors.domain.errors import UnderstudyError
from mirrors.models import Comparison, ComparisonFinding, ComparisonPart
from mirrors.models.comparison import ComparisonState, Engine, PartVerdict
from mirrors.services.comparison import lifecycle
from mirrors.services.comparison.chunks import ComparedChunks, ReadBudget
from mirrors.services.comparison.metadata import read_metadata
from mirrors.services.comparison.partition_ranges import plan_parts
from mirrors.services.comparison.records import compare_chunks_of
from mirrors.services.comparison.runner_ranges import RunnerRanges, runner_refusal
from mirrors.services.comparison.verified import store_compared
from mirrors.services.run_lifecycle import Stopped, unexpected_error_text

log = logging.getLogger(__name__)

TURN_S = 20.0
# Partitions that are read at the same time, by a worker and by a runner.
AT_ONCE, IN_RUNNER = 8, 200
LOOK_AGAIN_S = 0.5
NOTE_EVERY_S = 1.0
# All differences are counted; this many are stored to be read one by one.
MOST_FINDINGS = 5000
_MEGA = 1_000_000
_NEEDS_RUNNER = "Only the flow's runner evaluates rules."
_COMPACTED = (
    "A worker reads compacted topics, since a record that one side lacks needs a look at later "
    "records of its key."
)


class Continuation(NamedTuple):
    """Where and when a comparison continues: on this host, or in any worker without one."""

    host: str = ""
    wait_s: float = 0.0


def advance_comparison(*, comparison_id: int) -> Continuation | None:
    """Compare for some seconds; None when nothing is left to do."""
    run = lifecycle.claim_comparison(comparison_id=comparison_id)
    if run is None:
        return None
    turn = _ComparisonRun(run)
    try:
        if (more := turn.perform()) is not None:
            lifecycle.release_comparison(run=run, **turn.known())
            return more
        state, reason, found = turn.outcome()
    except Stopped as stop:
        state, reason, found = ComparisonState.ABORTED, stop.message, {}
    except UnderstudyError as error:
        state, reason, found = ComparisonState.FAILED, error.message, {}
    except DatabaseError:
        raise
    except Exception as error:
        log.exception("comparison %s raised an unexpected error", run.pk)
        state, reason, found = ComparisonState.FAILED, unexpected_error_text(error), {}
    turn.ranges.withdraw()
    found = {**turn.known(), **found}
    lifecycle.end_comparison(comparison_id=run.pk, state=state, reason=reason, **found)
    return None


class _ComparisonRun:
    def __init__(self, run: Comparison) -> None:
        self.run = run
        self._spec = run.flow.spec
        self._spent_before_ms = run.spent_ms
        if run.engine == Engine.SPARK:
            # The runner read while no worker had the comparison.
            self._spent_before_ms += run.rested_ms
        self._began = time.monotonic()
        self._noted = 0.0
        self._step = "look"
        self.ranges = RunnerRanges(run)
        self._aspects = [Aspect(**row) for row in (run.summary or {}).get("aspects", [])]
        left_s = run.seconds - self._spent_before_ms / 1000
        self._meter = ReadBudget(
            until=self._began + left_s,
            bytes_left=run.megabytes * _MEGA - run.read_bytes,
            tick=self.tick,
        )

    def perform(self) -> Continuation | None:
        """None when the comparison is complete."""
        run = self.run
        if run.summary is None:
            self._look()
        self._step = "content"
        if not self._waiting(1):
            return None
        if not run.engine:
            run.engine_reason = runner_refusal(run.flow)
            if not self._waiting(1, for_runner=True):
                run.engine_reason = _COMPACTED
            run.engine = Engine.WORKER if run.engine_reason else Engine.SPARK
            Comparison.objects.filter(pk=run.pk).update(
                engine=run.engine, engine_reason=run.engine_reason
            )
        return self._read_in_runner() if run.engine == Engine.SPARK else self._read_here()

    def _read_here(self) -> Continuation | None:
        while waiting := self._waiting(AT_ONCE):
            if time.monotonic() - self._began > TURN_S:
                return Continuation()
            if not self._meter.is_open():
                self._leave(waiting)
                continue
            if ruled := [part for part in waiting if part.rule is not None]:
                self._leave_ruled(ruled)
                continue
            steps = compare_chunks_of(
                flow=self.run.flow, spec=self._spec, parts=waiting, meter=self._meter
            )
            for step in steps:
                self._keep(step)
            self.tick()
        return None

    def _read_in_runner(self) -> Continuation | None:
        """Keep what the runner has compared, and ask for more."""
        if not self.ranges.is_here:
            return Continuation(self.ranges.host)
        self.tick()
        for step in self.ranges.collect(self._waiting(for_runner=True), self._meter):
            self._keep(step)
        if not self._meter.is_open():
            self._leave(self._waiting())
        if not self._waiting(1):
            return None
        waiting = self._waiting(for_runner=True)
        refusal = self.ranges.refusal() if waiting else _COMPACTED
        if refusal:
            self._hand_to_worker(refusal)
            return Continuation()
        for step in self.ranges.ask(waiting, self._meter):
            self._keep(step)
        return Continuation(self.ranges.host, LOOK_AGAIN_S)

    def _hand_to_worker(self, reason: str) -> None:
        self.ranges.withdraw()
        self.run.engine, self.run.engine_reason = Engine.WORKER, reason

    def known(self) -> dict[str, Any]:
        spent = self._spent_before_ms + int((time.monotonic() - self._began) * 1000)
        read = self.run.read_bytes + self._meter.bytes_read
        run = self.run
        names = ("engine", "engine_reason", "request", "answered_at")
        return {"spent_ms": spent, "read_bytes": read} | {
            name: getattr(run, name) for name in names
        }

    def tick(self) -> None:
        """Called often: sends the heartbeat, and raises when the comparison must stop."""
        if time.monotonic() - self._noted < NOTE_EVERY_S:
            return
        self._noted = time.monotonic()
        parts = ComparisonPart.objects.filter(comparison=self.run)
        waiting = parts.filter(verdict=PartVerdict.WAITING).count()
        total = parts.count()
        progress = {"step": self._step, "partitions": total, "done": total - waiting}
        progress["megabytes"] = self.known()["read_bytes"] // _MEGA
        if stop := lifecycle.note_progress(run=self.run, progress=progress):
            raise Stopped(stop)

    def outcome(self) -> tuple[str, str, dict[str, Any]]:
        content, flow = self._sums(), self.run.flow
        asked = self.run.content
        words = sentence(
            content,
            self._aspects,
            source=flow.source.alias,
            target=flow.target.alias,
            asked_content=asked,
        )
        summary = {**(self.run.summary or {}), "content": dataclasses.asdict(content)}
        verdict = judge(content, self._aspects, asked_content=asked)
        found = {"verdict": verdict, "summary": summary, "progress": {}}
        return ComparisonState.SUCCEEDED, words, found

    def _look(self) -> None:
        run = self.run
        shape = read_metadata(
            flow=run.flow,
            spec=self._spec,
            topics=run.topics,
            now=timezone.now(),
            tick=self.tick,
        )
        if run.content:
            plan_parts(run=run, spec=self._spec, shape=shape, tick=self.tick)
            for part in ComparisonPart.objects.filter(comparison=run, verdict=PartVerdict.SAME):
                store_compared(part=part, at=run.started_at or timezone.now())
        self._aspects = list(shape.aspects)
        run.summary = {"aspects": [dataclasses.asdict(row) for row in shape.aspects]}
        with transaction.atomic():
            ComparisonFinding.objects.filter(comparison=run).delete()
            self._store(shape.findings)
            Comparison.objects.filter(pk=run.pk).update(summary=run.summary)

    def _waiting(self, most: int = IN_RUNNER, *, for_runner: bool = False) -> list[ComparisonPart]:
        parts = ComparisonPart.objects.filter(comparison=self.run, verdict=PartVerdict.WAITING)
        if for_runner:
            # Only a runner evaluates rules.
            parts = parts.filter(Q(compacted=False) | Q(rule__isnull=False))
        return list(parts[:most])

    def _leave(self, parts: list[ComparisonPart]) -> None:
        """The budget is used up: report what was not read."""
        for part in parts:
            self._keep(ComparedChunks(part=part, next=part.next or 0, refusal=self._meter.why()))

    def _leave_ruled(self, parts: list[ComparisonPart]) -> None:
        """A worker evaluates no rules: report what was not compared."""
        for part in parts:
            rule = f"Rule {part.rule} filters or changes the records of this topic."
            refusal = f"{rule} {_NEEDS_RUNNER} {self.run.engine_reason}".strip()
            self._keep(ComparedChunks(part=part, next=part.next or 0, refusal=refusal))

    def _keep(self, step: ComparedChunks) -> None:
        part = step.part
        done = step.next >= (part.source_end or 0) and not step.refusal
        part.next = step.next
        part.source_records += step.source_records
        part.target_records += step.target_records
        part.differences += len(step.differences)
        part.explained += step.explained
        if any(step.digests):
            part.source_digest, part.target_digest = step.digests
        if step.refusal:
            part.unread += (part.source_end or 0) - step.next
            part.reason = " ".join(words for words in (part.reason, step.refusal) if words)
        if step.refusal or done:
            part.verdict = self._verdict(part)
        findings = [
            content_finding(part.topic, part.remote_topic, part.partition, row)
            for row in step.differences
        ]
        with transaction.atomic():
            part.save()
            if part.verdict != PartVerdict.WAITING and self.run.started_at is not None:
                store_compared(part=part, at=self.run.started_at)
            self._store(findings)

    def _verdict(self, part: ComparisonPart) -> str:
        if part.differences:
            return PartVerdict.DIFFERS
        if not part.unread:
            return PartVerdict.SAME
        read = part.next is not None and part.next > (part.source_first or 0)
        return PartVerdict.PARTLY if read else PartVerdict.UNREAD

    def _store(self, findings: list[Finding] | tuple[Finding, ...]) -> None:
        kept = ComparisonFinding.objects.filter(comparison=self.run).count()
        ComparisonFinding.objects.bulk_create(
            ComparisonFinding(comparison=self.run, **dataclasses.asdict(row))
            for row in findings[: max(0, MOST_FINDINGS - kept)]
        )

    def _sums(self) -> Content:
        parts = ComparisonPart.objects.filter(comparison=self.run)
        sums = parts.aggregate(
            partitions=Count("pk"),
            same=Count("pk", filter=Q(verdict=PartVerdict.SAME)),
            differs=Count("pk", filter=Q(verdict=PartVerdict.DIFFERS)),
            unread_partitions=Count("pk", filter=Q(unread__gt=0) | Q(verdict="unread")),
            source_records=Sum("source_records", default=0),
            target_records=Sum("target_records", default=0),
            differences=Sum("differences", default=0),
            unread=Sum("unread", default=0),
        )
        return Content(**sums)
