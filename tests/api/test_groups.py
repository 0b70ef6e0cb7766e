"""Consumer groups of a flow over REST: both sides, one row a group and partition."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import GroupOffset


def fill(flow_id: int) -> None:
    rest = {"flow_id": flow_id, "as_of": timezone.now()}
    for group in ("app", "other"):
        for partition in (0, 1):
            GroupOffset.objects.create(
                group=group,
                topic="orders",
                partition=partition,
                remote_topic="primary.orders",
                source_offset=100,
                translated_offset=90,
                target_offset=None if partition else 90,
                outcome="exact",
                sync_state="off" if partition else "in_sync",
                reason="sync.group.offsets.enabled is false" if partition else "",
                source_lag=7,
                re_reads=3,
                **rest,
            )
    GroupOffset.objects.create(group="tmp", sync_state="excluded", reason="matches x", **rest)


def test_a_group_is_shown_on_both_sides(viewer: APIClient, flow: dict[str, Any]) -> None:
    fill(flow["id"])
    path = f"/api/v1/flows/{flow['id']}/groups/"
    answer = viewer.get(path, {"group": "app"}).json()
    assert answer["count"] == 2
    row = answer["results"][1]
    row.pop("as_of")
    assert row == {
        "group": "app",
        "topic": "orders",
        "partition": 1,
        "remote_topic": "primary.orders",
        "source_offset": 100,
        "translated_offset": 90,
        "target_offset": None,
        "source_lag": 7,
        "re_reads": 3,
        "outcome": "exact",
        "sync_state": "off",
        "reason": "sync.group.offsets.enabled is false",
    }
    (out,) = viewer.get(path, {"sync_state": "excluded"}).json()["results"]
    assert (out["group"], out["topic"], out["partition"]) == ("tmp", None, None)
    names = [row["group"] for row in viewer.get(path, {"ordering": "-group"}).json()["results"]]
    assert names[0] == "tmp"
    assert viewer.get("/api/v1/flows/999999/groups/").status_code == 404
