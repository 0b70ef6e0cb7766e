"""Ranges that the flow's runner compares in its Spark: requests and responses are files.

Only a worker on the runner's host can reach them, and it never waits for the runner.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.utils import timezone

from mirrors import launcher
from mirrors.domain.comparison.alignment import Difference
from mirrors.domain.comparison.digests import CHUNK
from mirrors.domain.comparison.range_requests import ComparedRange, ComparisonRequest, RangePair
from mirrors.domain.states.runners import RUNS, RunnerState
from mirrors.models import Comparison, ComparisonPart, Flow, Runner
from mirrors.services.comparison.chunks import (
    ComparedChunks,
    ReadBudget,
    judge_chunks,
    plan_chunks,
)
from mirrors.services.process_liveness import is_served
from mirrors.services.runners.processes import directory_of

# A runner that restarts begins again within this time.
PATIENCE: Final = timedelta(seconds=90)
# Source offsets of the first request; later ones are as long as the runner takes this time for.
_FIRST_OFFSETS, _MOST_OFFSETS = 200_000, 10_000_000
_REQUEST_S: Final = 15.0
# A response that is older comes from a runner that hangs or is dead.
_ALIVE_S: Final = 15.0
_MEGA: Final = 1_000_000


def runner_refusal(flow: Flow) -> str:
    """Why the flow's runner cannot compare now; empty if it can."""
    runner = flow.runner
    if runner.state not in RUNS or not runner.host:
        return _not_running(runner)
    if not is_served(runner.host):
        return (
            f"No worker serves {runner.host}, the host of the runner {runner.name}, so another "
            "worker reads the records."
        )
    return ""


def _not_running(runner: Runner) -> str:
    return f"The runner {runner.name} does not run, so a worker reads the records."


class RunnerRanges:
    """The ranges of one comparison in its runner. Changes `request` and `answered_at` of the run;
    the caller stores them."""

    def __init__(self, run: Comparison) -> None:
        self._run = run
        self._directory = directory_of(run.flow.runner)
        self._error = ""

    @property
    def host(self) -> str:
        return str(self._run.flow.runner.host)

    @property
    def is_here(self) -> bool:
        """Whether this worker reaches the runner's files."""
        return self.host == settings.UNDERSTUDY_HOST

    def collect(
        self, parts: Iterable[ComparisonPart], meter: ReadBudget
    ) -> Iterator[ComparedChunks]:
        """What the runner has compared since the last look, in the order of each partition."""
        response = launcher.COMPARISONS.read_response(self._directory, self._run.pk)
        if response is None or response.number not in (0, self._run.request):
            return
        # The runner writes it every second while its tasks read.
        written_at = launcher.COMPARISONS.response_written_at(self._directory, self._run.pk)
        if written_at is not None and time.time() - written_at < _ALIVE_S:
            self._run.answered_at = timezone.now()
        found: dict[tuple[int, int], ComparedRange] = {
            (row.part, row.first): row for row in response.ranges
        }
        planned = self._planned()
        for part in parts:
            while (row := found.pop((part.pk, part.next or 0), None)) is not None:
                pair = planned.get(part.pk)
                if pair is None or row.first not in pair.source:
                    break
                meter.bytes_read += row.bytes
                first = pair.source.index(row.first)
                step = self._judged(part, pair.between(first, pair.chunks), row, meter)
                yield step
                if step.refusal or not row.source.complete:
                    break
        if response.ended:
            self._error = response.error
            launcher.COMPARISONS.remove(self._directory, self._run.pk)

    def refusal(self) -> str:
        """Why the runner does not compare on; empty if it does."""
        if self._error:
            return self._error
        runner = self._run.flow.runner
        # A runner that died is started again.
        if runner.state not in (*RUNS, RunnerState.LOST):
            return _not_running(runner)
        asked = self._run.answered_at
        if asked is not None and timezone.now() - asked > PATIENCE:
            return (
                f"The runner {runner.name} did not answer within "
                f"{PATIENCE.total_seconds():.0f} s, so a worker reads the records. It is busy, or "
                "it was started before an update: restart it then."
            )
        return ""

    def ask(self, parts: Sequence[ComparisonPart], meter: ReadBudget) -> list[ComparedChunks]:
        """Hand over a request, unless the runner has one. Returns what cannot be compared."""
        exchange, run = launcher.COMPARISONS, self._run
        if exchange.request_path(self._directory, run.pk).exists():
            return []
        most = max(1, self._offsets_at_once() // CHUNK // len(parts))
        planned, steps = plan_chunks(flow=run.flow, parts=parts, most=most)
        spec, rate = run.flow.spec, run.megabytes_per_second
        request = ComparisonRequest(
            comparison=run.pk,
            number=run.request + 1,
            flow=run.flow_id,
            name=run.flow.name,
            source=spec.source,
            target=spec.target,
            properties=dict(spec.properties),
            pairs=tuple(pair for _, pair in planned),
            most_bytes=max(1, meter.bytes_left - meter.bytes_read),
            bytes_per_second=None if rate is None else rate * _MEGA,
        )
        if planned:
            exchange.write_request(self._directory, run.pk, request)
            run.request += 1
            run.answered_at = timezone.now()
        return steps

    def withdraw(self) -> None:
        """The runner stops within a second."""
        if self._run.request and self.is_here:
            launcher.COMPARISONS.remove(self._directory, self._run.pk)

    def _planned(self) -> dict[int, RangePair]:
        """The ranges that were asked for, by partition."""
        path = launcher.COMPARISONS.request_path(self._directory, self._run.pk)
        try:
            request = ComparisonRequest.from_json(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, *launcher.NOT_OURS):
            return {}
        return {pair.part: pair for pair in request.pairs}

    def _judged(
        self, part: ComparisonPart, pair: RangePair, row: ComparedRange, meter: ReadBudget
    ) -> ComparedChunks:
        named = {(first, last): rows for first, last, rows in row.differences}

        def differences(first: int, last: int) -> tuple[Difference, ...]:
            return named[first, last]

        sums = row.source, row.target
        spec = self._run.flow.spec
        return judge_chunks(
            spec, part, pair, sums, differences, tick=meter.tick, refusal=row.refusal
        )

    def _offsets_at_once(self) -> int:
        """As many as the runner compares in some seconds, by what it has compared so far."""
        run = self._run
        done = sum(
            (part.next or 0) - (part.source_first or 0)
            for part in run.parts.all()
            if part.next is not None
        )
        if not done or run.spent_ms < 1000:
            return _FIRST_OFFSETS
        rate = done / (run.spent_ms / 1000)
        return max(_FIRST_OFFSETS, min(_MOST_OFFSETS, int(rate * _REQUEST_S)))
