"""Runs a comparison in a worker for some seconds at a time, so that other tasks get the worker.

It writes to neither cluster. After a crash, the next worker continues with what is not compared.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from typing import Any

from django.db import DatabaseError, transaction
from django.db.models import Count, Q, Sum
from django.utils import timezone

from mirrors.domain.comparison.findings import Aspect, Finding, content_finding
from mirrors.domain.comparison.outcome import Content, judge, sentence
from mirrors.domain.errors import UnderstudyError
from mirrors.models import Comparison, ComparisonFinding, ComparisonPart
from mirrors.models.comparison import ComparisonState, PartVerdict
from mirrors.services.comparison import lifecycle
from mirrors.services.comparison.metadata import read_metadata
from mirrors.services.comparison.partition_ranges import plan_parts
from mirrors.services.comparison.records import ComparedChunks, ReadBudget, compare_chunks_of
from mirrors.services.run_lifecycle import Stopped, unexpected_error_text

log = logging.getLogger(__name__)

TURN_S = 20.0
AT_ONCE = 8
NOTE_EVERY_S = 1.0
# All differences are counted; this many are stored to be read one by one.
MOST_FINDINGS = 5000
_MEGA = 1_000_000


def advance_comparison(*, comparison_id: int) -> bool:
    """Compare for some seconds; True when the comparison needs more time."""
    run = lifecycle.claim_comparison(comparison_id=comparison_id)
    if run is None:
        return False
    turn = _ComparisonRun(run)
    try:
        if turn.perform():
            lifecycle.release_comparison(run=run, **turn.known())
            return True
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
    found = {**turn.known(), **found}
    lifecycle.end_comparison(comparison_id=run.pk, state=state, reason=reason, **found)
    return False


class _ComparisonRun:
    def __init__(self, run: Comparison) -> None:
        self.run = run
        self._spec = run.flow.spec
        self._began = time.monotonic()
        self._noted = 0.0
        self._step = "look"
        self._aspects = [Aspect(**row) for row in (run.summary or {}).get("aspects", [])]
        left_s = run.seconds - run.spent_ms / 1000
        self._meter = ReadBudget(
            until=self._began + left_s,
            bytes_left=run.megabytes * _MEGA - run.read_bytes,
            tick=self.tick,
        )

    def perform(self) -> bool:
        """True when the time is over before the comparison is complete."""
        if self.run.summary is None:
            self._look()
        self._step = "content"
        while waiting := self._waiting():
            if time.monotonic() - self._began > TURN_S:
                return True
            if not self._meter.is_open():
                self._leave(waiting)
                continue
            steps = compare_chunks_of(
                flow=self.run.flow, spec=self._spec, parts=waiting, meter=self._meter
            )
            for step in steps:
                self._keep(step)
            self.tick()
        return False

    def known(self) -> dict[str, Any]:
        spent = self.run.spent_ms + int((time.monotonic() - self._began) * 1000)
        read = self.run.read_bytes + self._meter.bytes_read
        return {"spent_ms": spent, "read_bytes": read}

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
        self._aspects = list(shape.aspects)
        run.summary = {"aspects": [dataclasses.asdict(row) for row in shape.aspects]}
        with transaction.atomic():
            ComparisonFinding.objects.filter(comparison=run).delete()
            self._store(shape.findings)
            Comparison.objects.filter(pk=run.pk).update(summary=run.summary)

    def _waiting(self) -> list[ComparisonPart]:
        parts = ComparisonPart.objects.filter(comparison=self.run, verdict=PartVerdict.WAITING)
        return list(parts[:AT_ONCE])

    def _leave(self, parts: list[ComparisonPart]) -> None:
        """The budget is used up: report what was not read."""
        for part in parts:
            self._keep(ComparedChunks(part=part, next=part.next or 0, refusal=self._meter.why()))

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
