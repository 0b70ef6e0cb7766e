"""A runner's memory, log lines and stopped partitions, on pages and over REST."""

from __future__ import annotations

import pytest
from django.utils import timezone

from mirrors.models import Flow, RunnerLog
from tests.pages import world
from tests.pages.conftest import As

LINE = "2026-11-22 02:33:24,100 WARNING spark_runner [flow-{}]: {}"


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    runner = flow.runner
    runner.memory = {"driver": 120_000_000, "jvm": 480_000_000, "workers": 90_000_000}
    runner.save()
    mine, theirs = LINE.format(flow.pk, "it is <slow>"), LINE.format(flow.pk + 1, "another")
    now = timezone.now()
    RunnerLog.objects.create(runner=runner, lines=[mine, theirs], mark="m", written_at=now)
    return flow


def test_the_jobs_tab_shows_the_lines_of_its_flow_and_the_runner_page_all(
    signed_in: As, flow: Flow
) -> None:
    operator = signed_in("operator")
    tab = operator.get(f"/flows/{flow.pk}/jobs/").content.decode()
    assert "it is &lt;slow&gt;" in tab
    assert "another" not in tab
    assert "driver 120 MB, Spark's JVM 480 MB, Python workers 90 MB" in tab
    page = operator.get("/runners/default/").content.decode()
    assert "it is &lt;slow&gt;" in page
    assert "another" in page


def test_a_viewer_reads_which_role_may_read_the_log(signed_in: As, flow: Flow) -> None:
    viewer = signed_in("viewer")
    for path in (f"/flows/{flow.pk}/jobs/", "/runners/default/"):
        text = viewer.get(path).content.decode()
        assert "slow" not in text
        assert "operator or admin" in text


def test_records_behind_stopped_partitions_are_counted_and_unknown_is_not_none(
    signed_in: As, flow: Flow
) -> None:
    world.partition(flow, "orders", 0, state="faulted", offset_lag=40)
    world.partition(flow, "orders", 1, state="gap", offset_lag=2)
    world.partition(flow, "orders", 2, state="lagging", offset_lag=900)
    viewer = signed_in("viewer")
    page = viewer.get(f"/flows/{flow.pk}/").content.decode()
    assert "Stalled partitions" in page
    assert "42 records wait" in page
    flow.partitions.filter(partition=1).update(offset_lag=None)
    page = viewer.get(f"/flows/{flow.pk}/").content.decode()
    # Offsets are an upper bound: markers and aborted records have offsets too.
    assert "at most 40 records wait in those with a known end; unknown for 1" in page
    flow.partitions.filter(state__in=["faulted", "gap"]).update(state="in_sync")
    assert "Stalled partitions" not in viewer.get(f"/flows/{flow.pk}/").content.decode()
