"""Times on pages: with their zone, in that of the person; files and REST in UTC."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import PersonSettings
from mirrors.views.time_zone import local, times_in
from tests.pages import world
from tests.pages.conftest import As

AT = datetime(2026, 3, 1, 22, 15, tzinfo=UTC)


def _time_of_change(client: Client) -> str:
    text = client.get("/").content.decode()
    found = re.search(r'title="2026-03-01 22:15:00 UTC">([^<]+)</time></td>', text)
    assert found is not None
    return found[1]


def test_times_say_their_zone_and_follow_the_person_into_the_next_session(signed_in: As) -> None:
    viewer = signed_in("viewer")
    world.transition(world.flow(), when=AT)
    assert _time_of_change(viewer) == "01 Mar 2026, 22:15 UTC"
    answer = viewer.post("/account/time-zone/", {"zone": "Asia/Kolkata"}, follow=True)
    assert "Pages show times in Asia/Kolkata." in answer.content.decode()
    assert _time_of_change(viewer) == "02 Mar 2026, 03:45 IST"
    assert _time_of_change(signed_in("viewer")) == "02 Mar 2026, 03:45 IST"
    # Somebody else has not chosen it.
    assert _time_of_change(signed_in("operator")) == "01 Mar 2026, 22:15 UTC"


def test_files_rest_and_exact_titles_stay_in_utc(signed_in: As) -> None:
    viewer = signed_in("viewer")
    viewer.post("/account/time-zone/", {"zone": "Asia/Kolkata"})
    flow = world.flow()
    world.transition(flow, when=AT)
    rows = json.loads(viewer.get("/?as=json&of=changes").getvalue())
    assert "2026-03-01T22:15:00+00:00" in [row["when"] for row in rows]
    (row,) = viewer.get(f"/api/v1/flows/{flow.pk}/transitions/").json()["results"]
    assert row["when"] == "2026-03-01T22:15:00Z"


@pytest.mark.parametrize("zone", ["", "Nowhere/Atlantis", "../etc/passwd", "x" * 300])
def test_a_zone_that_is_not_there_is_refused(viewer: Client, zone: str) -> None:
    assert viewer.post("/account/time-zone/", {"zone": zone}).status_code == 422
    assert not PersonSettings.objects.exists()
    with times_in(zone):
        assert local(AT).utcoffset() == timedelta(0)


def test_a_clusters_last_contact_is_only_said_of_one_that_was_reached(viewer: Client) -> None:
    now = timezone.now()
    world.cluster("dark", reachable=False, reason="Refused.", checked_at=now)
    text = viewer.get("/clusters/dark/").content.decode()
    assert "Last contact" not in text
    assert "never reached; last attempt" in text
    world.cluster("bright", reachable=True, checked_at=now, reached_at=now)
    assert "Last contact" in viewer.get("/clusters/bright/").content.decode()
