"""How long pages and lists take on this database, as a table: printed, and in the documentation."""

from __future__ import annotations

import dataclasses
import logging
import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import DatabaseError, connection
from django.db.models import F
from django.test import Client
from django.utils import timezone

from controlplane.bench.scale.page_urls import LISTS, PAGES, SCRAPES
from controlplane.garbage_collection import freeze
from mirrors.domain.cluster_snapshot import ClusterSnapshot, TopicState
from mirrors.models import (
    Cluster,
    DrillRun,
    DutyRun,
    FailoverRun,
    Flow,
    FlowAccount,
    FlowPartition,
    FlowTopic,
    HeartbeatState,
    Role,
    Runner,
)
from mirrors.models.runners import RunnerState
from mirrors.services.users import create_token, ensure_person
from monitoring.alerts import evaluation
from monitoring.domain.history import TOPIC_MINUTE
from monitoring.forecasts import source_scan
from monitoring.forecasts.source_scan import OffsetAnswers, TopicPartition
from monitoring.history import collector, topic_collector
from monitoring.models import ClusterSweep, Feed, FlowOutlook

log = logging.getLogger(__name__)

PAGE_MS, LIST_MS, SWEEP_MS = 200.0, 150.0, 1_000.0
PERSON = "bench-web"
DOCUMENT = Path(__file__).parents[3] / "docs" / "performance-web.md"
_HEAD = (
    "| what | limit | queries | SQLite, p95 | SQLite, CPU | PostgreSQL, p95 | PostgreSQL, CPU |\n"
    "|---|---|---|---|---|---|---|\n"
)
_COLUMNS = {"sqlite": (0, 1), "postgresql": (2, 3)}
_NOT_MEASURED = "–"  # noqa: RUF001 - the sign of the documents for no figure
SWEEP = "a source scan of 10,000 partitions, without Kafka"


@dataclasses.dataclass(frozen=True)
class PageTimes:
    what: str
    limit_ms: float
    times_ms: tuple[float, ...]
    queries: int
    # Of this process alone: on a busy machine it tells a slow page from a page that had to wait.
    cpu_ms: tuple[float, ...] = (0.0,)

    @property
    def p95_ms(self) -> float:
        return sorted(self.times_ms)[math.ceil(len(self.times_ms) * 0.95) - 1]

    @property
    def holds(self) -> bool:
        return self.p95_ms < self.limit_ms


def measure(*, times: int) -> list[PageTimes]:
    found = [
        *measure_pages(times=times),
        *measure_scrapes(SCRAPES, SWEEP_MS, times),
        *measure_background(times, SWEEP_MS),
    ]
    if wide := Cluster.objects.filter(alias="wide").first():
        few = _few(times)
        took = _measured(SWEEP, SWEEP_MS, lambda: _sweep(wide), few, freshen)
        found.insert(-1, took)
    return found


def measure_pages(*, times: int) -> list[PageTimes]:
    """Every page and list."""
    freeze()
    person = Client(headers={"host": "localhost"})
    person.force_login(
        ensure_person(username=PERSON, password=None, role=Role.ADMIN),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    program = _program()
    one = {
        name: model._default_manager.order_by("pk").values_list("pk", flat=True).first() or 0
        for name, model in {"flow": Flow, "drill": DrillRun, "run": FailoverRun}.items()
    }
    asked = [(path, PAGE_MS, person) for path in PAGES]
    asked += [(path, LIST_MS, program) for path in LISTS]
    return [_page(path.format(**one), limit, client, times) for path, limit, client in asked]


def _page(path: str, limit_ms: float, client: Client, times: int) -> PageTimes:
    """A page that gives up on the database has no time: it is over every limit."""
    try:
        return _measured(path, limit_ms, _get(client, path), times)
    except (RuntimeError, DatabaseError) as error:
        log.warning("%s gave no page: %s", path, error)
        connection.close()
        return PageTimes(path, limit_ms, (math.inf,), 0)


def measure_scrapes(paths: Iterable[str], limit_ms: float, times: int) -> list[PageTimes]:
    freeze()
    program = _program()
    return [_measured(path, limit_ms, _get(program, path), times) for path in paths]


def measure_background(times: int, limit_ms: float) -> list[PageTimes]:
    """The samples of the history, and at last the alert rules."""
    few, move = _few(times), _MovingTopics()
    return [
        _measured("a history sample of all flows", limit_ms, _collect, few, freshen),
        _measured("a history sample of 2,000 topics", limit_ms, move.collect, few, move),
        _measured("an evaluation of all alert rules", limit_ms, _evaluate, few, freshen),
    ]


def _few(times: int) -> int:
    return max(3, times // 5)


def _program() -> Client:
    ensure_person(username=PERSON, password=None, role=Role.ADMIN)
    token = create_token(username=PERSON)
    return Client(headers={"host": "localhost", "authorization": f"Token {token}"})


def table(found: list[PageTimes]) -> str:
    lines = [f"{'what':<46}{'p95':>10}{'limit':>10}{'CPU':>10}{'queries':>9}"]
    for one in found:
        verdict = "" if one.holds else "  too slow"
        cpu = statistics.median(one.cpu_ms)
        figures = f"{one.p95_ms:>7.0f} ms{one.limit_ms:>7.0f} ms{cpu:>7.0f} ms{one.queries:>9}"
        lines.append(f"{one.what:<46}{figures}{verdict}")
    return "\n".join(lines)


def write_docs(found: Sequence[PageTimes], vendor: str, document: Path = DOCUMENT) -> None:
    """Write the documented table: the columns of this database, and those known of the other one.

    Rows of what is no longer measured go.
    """
    text = document.read_text()
    start = text.index(_HEAD) + len(_HEAD)
    end = text.index("\n\n", start) + 1
    rows = "".join(
        _row(one, figures, vendor) for one, figures in _with_known(found, text[start:end])
    )
    document.write_text(text[:start] + rows + text[end:])


def _with_known(found: Sequence[PageTimes], old: str) -> list[tuple[PageTimes, list[str]]]:
    """Each measurement with the four figures that the table has."""
    known = {}
    for line in old.splitlines():
        what, _, _, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        known[what] = figures
    return [(one, known.get(_name(one), [_NOT_MEASURED] * 4)) for one in found]


def _row(one: PageTimes, figures: list[str], vendor: str) -> str:
    p95, cpu = _COLUMNS[vendor]
    took = f"{one.p95_ms:.0f}"
    figures[p95] = took if one.holds else f"**{took}**"
    figures[cpu] = f"{statistics.median(one.cpu_ms):.0f}"
    cells = (_name(one), f"{one.limit_ms:,.0f}", str(one.queries), *figures)
    return f"| {' | '.join(cells)} |\n"


def _name(one: PageTimes) -> str:
    return f"`{one.what}`" if one.what.startswith("/") else one.what


def freshen() -> None:
    """As if runners, sweeps, heartbeats and duties had just reported: nothing is to be told of."""
    now = timezone.now()
    Flow.objects.update(as_of=now)
    FlowAccount.objects.update(as_of=now, is_swept=False)
    # Once, for the hour to come: to write a million rows each time would measure their vacuum.
    FlowPartition.objects.filter(as_of__lt=now).update(as_of=now + timedelta(hours=1))
    FlowOutlook.objects.update(as_of=now)
    HeartbeatState.objects.update(seen_at=now)
    Runner.objects.update(state=RunnerState.READY, seen_at=now)
    Feed.objects.update(stale_since=None)
    lately = DutyRun.objects.filter(slot__gt=now.timestamp() - 3_600)
    lately.update(ended_at=now)


def _collect() -> None:
    collector.collect(now=timezone.now())


class _MovingTopics:
    """Each topic has replicated records, and another minute has begun."""

    def __init__(self) -> None:
        self._now = timezone.now()

    def __call__(self) -> None:
        self._now += TOPIC_MINUTE.step
        moved = {"records": F("records") + 100, "bytes": F("bytes") + 100_000}
        FlowTopic.objects.update(**moved, as_of=self._now)

    def collect(self) -> None:
        topic_collector.collect(now=self._now)


class _FakeSource:
    """A source that answers at once; retention took something from a tenth of its partitions."""

    def __init__(self) -> None:
        self.turn = 0

    def topics(self, cluster: Cluster, *, deadline_s: float) -> ClusterSnapshot:
        rows = FlowTopic.objects.filter(flow__source=cluster)
        found = {
            name: TopicState(name=name, partitions=partitions, replication_factor=1)
            for name, partitions in rows.values_list("topic", "partitions")
        }
        return ClusterSnapshot(taken_at=0, cluster_id="", brokers=1, topics=found)

    def topic_ids(
        self, cluster: Cluster, topics: Iterable[str], *, deadline_s: float
    ) -> dict[str, str]:
        return dict.fromkeys(topics, "")

    def list_offsets(
        self, cluster: Cluster, partitions: Sequence[TopicPartition], *, deadline_s: float
    ) -> OffsetAnswers:
        self.turn += 1
        return OffsetAnswers(
            # Partition n is taken from in every tenth turn, another tenth each time.
            earliest={tp: (self.turn + tp[1]) // 10 * 100 for tp in partitions},
            end=dict.fromkeys(partitions, 1_000_000),
            stable=dict.fromkeys(partitions, 1_000_000),
        )


_SOURCE = _FakeSource()


def _sweep(wide: Cluster) -> None:
    now = timezone.now()
    ClusterSweep.objects.filter(cluster=wide).update(due_at=now)
    if not source_scan.scan_source(cluster_id=wide.pk, now=now, sources=_SOURCE):
        raise RuntimeError("the sweep was not due")


def _evaluate() -> None:
    evaluation.evaluate(now=timezone.now())


def _get(client: Client, path: str) -> Callable[[], None]:
    def ask() -> None:
        answer = client.get(path)
        if answer.status_code != 200:
            raise RuntimeError(f"{path} answered {answer.status_code}")

    return ask


def _measured(
    what: str,
    limit_ms: float,
    act: Callable[[], None],
    times: int,
    before: Callable[[], None] = lambda: None,
) -> PageTimes:
    queries = 0

    def count(execute: Callable[..., Any], *args: Any) -> Any:
        nonlocal queries
        queries += 1
        return execute(*args)

    before()
    act()
    before()
    with connection.execute_wrapper(count):
        act()
    taken, cpu = [], []
    for _ in range(times):
        before()
        began, busy = time.perf_counter(), time.process_time()
        act()
        taken.append((time.perf_counter() - began) * 1000)
        cpu.append((time.process_time() - busy) * 1000)
    return PageTimes(what, limit_ms, tuple(taken), queries, tuple(cpu))
