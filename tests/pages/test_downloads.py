"""Every table has a CSV and a JSON download, and every list is searched by its address."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.settings.flow_control import SCHEDULE
from mirrors.models import Flow, FlowPartition, FlowPlan, GroupOffset, HeartbeatState
from monitoring.models import Channel, Delivery, Silence
from tests.pages import world

LISTS = ("/flows/", "/topology/", "/schedules/", "/clusters/", "/runners/", "/audit/", "/alerts/")
PARTS = ("topics", "partitions", "groups", "gaps", "jobs", "events", "history")
SHEETS = {
    "heartbeats": "flow.name",
    "duties": "schedule.name",
    "plan": "kind",
    "configuration": "key",
}


@pytest.mark.parametrize("part", SHEETS)
def test_tables_that_are_no_rows_are_files_too(viewer: Client, part: str) -> None:
    flow = world.busy()
    now = timezone.now()
    HeartbeatState.objects.create(flow=flow, seen_at=now, as_of=now)
    change = {"kind": "create topic", "name": "a", "before": None, "after": "3", "reason": "new"}
    FlowPlan.objects.create(flow=flow, state="ready", changes=[change], since=now, as_of=now)
    path = f"/flows/{flow.pk}/{part}/"
    page = viewer.get(path).content.decode()
    assert "?as=csv" in page
    rows = json.loads(viewer.get(f"{path}?as=json").getvalue())
    assert rows
    assert SHEETS[part] in rows[0]
    lines = viewer.get(f"{path}?as=csv").getvalue().decode().splitlines()
    assert lines[0].split(",")[0] == SHEETS[part]
    assert len(lines) >= len(rows) + 1


@pytest.mark.parametrize("part", PARTS)
def test_every_list_of_a_flow_has_search_and_files(viewer: Client, part: str) -> None:
    flow = world.busy()
    path = f"/flows/{flow.pk}/{part}/"
    page = viewer.get(f"{path}?q=no-such-thing").content.decode()
    assert re.search(r'<input type="search" name="q" value="no-such-thing"', page)
    assert "as=csv" in page
    assert json.loads(viewer.get(f"{path}?as=json&q=no-such-thing").getvalue()) == []


@pytest.mark.parametrize("path", LISTS)
def test_every_list_has_files(viewer: Client, path: str) -> None:
    world.busy()
    answer = viewer.get(f"{path}?as=json")
    assert answer["Content-Type"].startswith("application/json")
    assert isinstance(json.loads(answer.getvalue()), list)
    assert viewer.get(f"{path}?as=csv")["Content-Type"].startswith("text/csv")


@pytest.mark.parametrize(
    ("path", "column"),
    [
        ("/alerts/rules/?", "name"),
        ("/alerts/rules/?of=channels&", "name"),
        ("/alerts/rules/?of=silences&", "flow.name"),
        ("/alerts/rules/?of=dead&", "what"),
        ("/people/?", "username"),
        ("/account/tokens/?", "start"),
        ("/runners/default/?", "label"),
        ("/clusters/primary/?", "label"),
    ],
)
def test_every_other_table_has_files(admin: Client, path: str, column: str) -> None:
    flow = world.busy()
    channel = Channel.objects.create(name="on call", kind="webhook", target="https://x.example/key")
    Delivery.objects.create(channel=channel, what="test", state="dead", error="It said 500.")
    ends = timezone.now() + timedelta(hours=1)
    Silence.objects.create(flow=flow, ends_at=ends, who="ann", reason="Moving house.")
    assert admin.post("/account/tokens/?as=csv", {"days": "1"})["Content-Type"].startswith("text/h")
    page = path.split("?")[0]
    assert "as=csv" in admin.get(page).content.decode()
    text = admin.get(f"{path}as=json").getvalue().decode()
    rows = json.loads(text)
    assert rows
    assert column in rows[0]
    assert "x.example/key" not in text, "an address may be the key to a room"
    lines = admin.get(f"{path}as=csv").getvalue().decode().splitlines()
    assert lines[0].split(",")[0] == column
    assert len(lines) == len(rows) + 1


def test_files_of_a_page_need_its_role(viewer: Client) -> None:
    assert viewer.get("/people/?as=csv").status_code == 403


@pytest.mark.parametrize(
    "path",
    ["/flows/?", "/topology/?", "/flows/{pk}/topics/?q=orders&", "/flows/{pk}/partitions/?",
     "/flows/{pk}/?of=behind&", "/flows/{pk}/topics/orders/?", "/schedules/?", "/?of=flows&",
     "/?of=worst&", "/?of=groups&"],
)  # fmt: skip
def test_a_file_has_no_lag_of_which_only_a_lower_bound_is_known(viewer: Client, path: str) -> None:
    flow = world.busy()
    Flow.objects.update(observed_state="running", properties={SCHEDULE: "0 4 * * *"})
    FlowPartition.objects.filter(flow=flow, partition=0).update(offset_lag=7, time_lag_ms=50)
    GroupOffset.objects.create(
        flow=flow, group="app", topic="orders", partition=0, as_of=timezone.now()
    )
    address = f"{path.format(pk=flow.pk)}as="

    def lags() -> list[tuple[object, ...]]:
        rows = json.loads(viewer.get(f"{address}json").getvalue())
        return [tuple(row.get(key, 0) for key in ("offset_lag", "time_lag_ms")) for row in rows]

    assert any(known for row in lags() for known in row)
    # The source is silent: who knows what it has by now.
    world.silence(flow, seconds=50)
    assert set(lags()) <= {(None, None), (None, 0)}
    assert ",," in viewer.get(f"{address}csv").getvalue().decode()
