"""Start, end and window of a flow's runs, over REST."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

BOUNDS = {"start.from": "orders:0:1500,orders:1:1700", "run.until": "orders:0:1600"}
NIGHT = {"run.schedule": "0 22 * * *", "run.window.minutes": "480"}


def test_bounds_by_offset_are_settings_like_any_other(
    operator: APIClient, two_clusters: Any
) -> None:
    body = {"source": "primary", "target": "backup", "properties": BOUNDS}
    made = operator.post("/api/v1/flows/", body)
    assert made.status_code == 201, made.json()
    assert made.json()["properties"] == BOUNDS
    url = f"/api/v1/flows/{made.json()['id']}/"
    later = {**BOUNDS, "run.until": "orders:0:1499"}
    fields = operator.patch(url, {"properties": later}).json()["error"]["fields"]
    assert fields == {
        "run.until": [
            "run.until ends orders:0 at offset 1499, before start.from starts it at 1500."
        ]
    }
    # The reverse flow does not begin at an offset of this source.
    back = operator.post(f"{url}reverse/").json()
    assert back["properties"] == {}


@pytest.mark.parametrize(
    ("properties", "key", "words"),
    [
        ({"start.from": "orders:0:-1"}, "start.from", "its offset must be a whole number from 0"),
        ({"start.from": "orders:0:1", "topics": "t"}, "start.from", "the flow does not replicate"),
        ({"run.until": "orders:0:1,orders:0:2"}, "run.until", "names orders:0 twice"),
        ({"run.window.minutes": "480"}, "run.window.minutes", "needs run.schedule"),
        ({**NIGHT, "run.window.minutes": "8h"}, "run.window.minutes", "must be a whole number"),
        ({**NIGHT, "run.schedule.zone": "Mars"}, "run.schedule.zone", "must be an IANA time zone"),
        ({**NIGHT, "run.until": "orders:0:1"}, "run.schedule", "needs run.until=end"),
    ],
)
def test_what_cannot_be_is_refused_at_its_key(
    operator: APIClient, two_clusters: Any, properties: dict[str, str], key: str, words: str
) -> None:
    body = {"source": "primary", "target": "backup", "properties": properties}
    answer = operator.post("/api/v1/flows/", body)
    assert answer.status_code == 400
    fields = answer.json()["error"]["fields"]
    assert list(fields) == [key]
    assert words in fields[key][0]


def test_a_window_is_made_and_edited_without_a_restart(
    operator: APIClient, two_clusters: Any
) -> None:
    body = {"source": "primary", "target": "backup", "properties": NIGHT}
    made = operator.post("/api/v1/flows/", body)
    assert made.status_code == 201, made.json()
    flow = made.json()["id"]
    longer = {"properties": {**NIGHT, "run.window.minutes": "600"}}
    assert operator.post(f"/api/v1/flows/{flow}/preview/", longer).json()["restarts"] == []
    [row] = operator.get("/api/v1/schedules/").json()["results"]
    assert (row["schedule"], row["window_minutes"], row["zone"]) == ("0 22 * * *", 480, None)
