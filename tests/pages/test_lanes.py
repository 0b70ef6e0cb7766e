"""Lanes of batches, with reasons: on the pages of a flow and of its job, and over REST."""

from __future__ import annotations

import json
import re

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Flow, Job
from tests.pages import world

SMALL = "small batches while lagging"
COUNTED = [
    {"lane": "raw", "why": "", "batches": 2_997, "records": 60_000, "bytes": 9_000_000},
    {"lane": "repack", "why": SMALL, "batches": 2_000, "records": 90_000, "bytes": 4_000_000},
    {"lane": "repack", "why": "holes from compaction", "batches": 3, "records": 4, "bytes": 500},
]


@pytest.fixture
def job(db: None) -> Job:
    flow = world.flow(world.cluster("east"), world.cluster("west"))
    world.partition(flow, number=0, lane="repack", why=SMALL)
    world.partition(flow, number=1, lane="raw")
    before = [{**COUNTED[0], "batches": 7}]
    world.job(flow, state="stopped", ended_at=timezone.now(), lanes=before)
    return world.job(flow, lanes=COUNTED)


def cells(text: str) -> list[list[str]]:
    table = text.partition('aria-label="Table of lanes"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.S)
    return [re.findall(r">([^<>]+)</t[hd]>", row) for row in rows]


@pytest.mark.parametrize("path", ["/flows/{flow}/partitions/", "/flows/{flow}/jobs/{job}/"])
def test_a_page_shows_the_share_of_each_lane_and_reason(
    viewer: Client, job: Job, path: str
) -> None:
    address = path.format(flow=job.flow_id, job=job.pk)
    assert cells(viewer.get(address).content.decode()) == [
        ["raw", "as it was", "2,997", "59.9 %", "60,000", "9.0 MB"],
        ["repack", SMALL, "2,000", "40.0 %", "90,000", "4.0 MB"],
        ["repack", "holes from compaction", "3", "0.1 %", "4", "500 B"],
    ]
    file = viewer.get(f"{address}?as=json&of=lanes")
    assert file["Content-Disposition"].startswith("attachment")
    assert [row["why"] for row in json.loads(file.getvalue())] == [row["why"] for row in COUNTED]


def test_a_partition_s_row_says_lane_and_reason_and_is_found_by_it(
    viewer: Client, job: Job
) -> None:
    path = f"/flows/{job.flow_id}/partitions/?q=lagging&as=json"
    [row] = json.loads(viewer.get(path).getvalue())
    assert (row["partition"], row["lane"], row["why"]) == (0, "repack", SMALL)


def test_a_flow_without_a_job_has_no_table_of_lanes(viewer: Client) -> None:
    flow: Flow = world.flow()
    world.partition(flow)
    page = viewer.get(f"/flows/{flow.pk}/partitions/").content.decode()
    assert "Batches by lane" not in page


def test_rest_has_both_and_takes_them_apart(viewer: Client, job: Job) -> None:
    path = f"/api/v1/flows/{job.flow_id}"
    last, first = viewer.get(f"{path}/jobs/").json()["results"]
    assert last["lanes"] == COUNTED
    assert [row["batches"] for row in first["lanes"]] == [7]
    for asked in ({"lane": "repack"}, {"why": SMALL}):
        [row] = viewer.get(f"{path}/partitions/", asked).json()["results"]
        assert (row["partition"], row["lane"], row["why"]) == (0, "repack", SMALL)
