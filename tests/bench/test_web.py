"""The large database and its timer: seeded as documented, pages timed, slow ones named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.utils import timezone

from controlplane.bench.scale import page_times, seed_flows
from mirrors.models import Flow, FlowPartition
from monitoring.domain.history import HOUR
from monitoring.models import LagSample


def test_a_seeded_database_is_whole_and_every_page_is_timed(db: Any) -> None:
    now = timezone.now()
    seed_flows.seed(flows=2, now=now, days=2, watched=1)
    assert (Flow.objects.count(), FlowPartition.objects.count()) == (2, 200)
    hours = LagSample.objects.filter(resolution=HOUR.seconds, flow=Flow.objects.first())
    moments = list(hours.order_by("at").values_list("at", flat=True))
    assert len(moments) == 48
    assert moments[-1] - moments[0] == HOUR.step * 47
    found = page_times.measure(times=1)
    assert len(found) == len(page_times.PAGES) + len(page_times.LISTS) + len(page_times.SCRAPES) + 3
    assert all(one.p95_ms > 0 for one in found)


def test_a_run_writes_its_own_columns_of_the_documented_table(tmp_path: Path) -> None:
    document = tmp_path / "web.md"
    document.write_text(page_times.DOCUMENT.read_text())
    found = [
        page_times.PageTimes("/", 200.0, (250.0,), 12, (190.0,)),
        page_times.PageTimes("/new/", 200.0, (50.0,), 3, (40.0,)),
    ]
    page_times.write_docs(found, "postgresql", document)
    page_times.write_docs(found[1:], "sqlite", document)
    page_times.write_docs(found, "sqlite", document)
    text = document.read_text()
    assert "| `/` | 200 | 12 | **250** | 190 | – | – |" in text  # noqa: RUF001
    assert "| `/new/` | 200 | 3 | 50 | 40 | 50 | 40 |\n\n" in text
    assert "`/flows/`" not in text.partition("## Why")[0]
    assert text.partition("## Why")[2] == page_times.DOCUMENT.read_text().partition("## Why")[2]


def test_the_table_says_what_is_too_slow() -> None:
    found = [
        page_times.PageTimes("/flows/", 200.0, tuple(float(at) for at in range(1, 101)), 9),
        page_times.PageTimes("/", 200.0, (150.0, 250.0), 12),
    ]
    quick, slow = page_times.table(found).splitlines()[1:]
    assert found[0].p95_ms == 95
    assert "95 ms" in quick
    assert "too slow" not in quick
    assert slow.endswith("too slow")
