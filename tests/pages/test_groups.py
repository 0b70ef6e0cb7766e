"""The tab of consumer groups: source and target side by side, and why a group did not move."""

from __future__ import annotations

import json

from django.utils import timezone

from mirrors.domain.formatting import count
from mirrors.models import GroupOffset
from tests.pages import world
from tests.pages.conftest import As


def test_groups_stand_side_by_side_and_say_why_they_stay(signed_in: As) -> None:
    client = signed_in("viewer")
    flow = world.busy()
    path = f"/flows/{flow.pk}/groups/"
    assert "No consumer groups yet" in client.get(path).content.decode()
    for group in ("app", "<b>late</b>"):
        GroupOffset.objects.create(
            flow=flow,
            group=group,
            topic="orders",
            partition=0,
            source_offset=12_345,
            translated_offset=12_001,
            target_offset=11_999,
            outcome="gap",
            sync_state="active",
            reason="the group is Stable on the target",
            as_of=timezone.now(),
        )
    GroupOffset.objects.create(
        flow=flow, group="tmp", sync_state="excluded", reason="matches x", as_of=timezone.now()
    )
    text = client.get(path).content.decode()
    assert all(count(number) in text for number in (12_345, 12_001, 11_999))
    assert "the group is Stable on the target" in text
    assert "<b>late</b>" not in text
    only = client.get(path, {"sync_state": "excluded"}).content.decode()
    assert "matches x" in only
    assert count(11_999) not in only
    assert client.get(path, {"as": "csv"}).status_code == 200
    (found,) = json.loads(client.get("/search/", {"as": "json", "q": "LATE"}).getvalue())
    assert (found["kind"], found["where"]) == ("group", "primary→backup")
    assert "&lt;b&gt;late" in client.get(found["link"]).content.decode()
