"""A person with a grant on one flow, in Chromium: pages show only that flow, and work."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Browser

from mirrors.models import AccessGrant, Role
from mirrors.services.users import ensure_person
from tests.browser.conftest import PASSWORD, Visitor
from tests.two_teams import FAR, HIDDEN, first_team, second_team

PAGES = (
    *("/", "/flows/", "/clusters/", "/runners/", "/groups/", "/topology/", "/alerts/", "/audit/"),
    *("/failovers/", "/drills/", "/comparisons/", "/search/?q=o", "/flows/{flow}/topics/"),
    *("/flows/{flow}/configuration/", "/flows/{flow}/"),
)


def test_a_person_with_a_grant_on_one_flow_sees_and_uses_only_it(
    chromium: Browser, live_server: Any, person: str
) -> None:
    mine = first_team()
    second_team(mine)
    ann = ensure_person(username="ann", password=PASSWORD, role=Role.NONE)
    facts = {"role": "operator", "scope": "flow", "flow": mine, "created_by": person}
    AccessGrant.objects.create(user=ann, **facts)
    visitor = Visitor(chromium, live_server.url)
    try:
        page = visitor.sign_in("ann")
        for path in PAGES:
            answer = page.goto(path.format(flow=mine.pk))
            assert answer is not None
            assert answer.status == 200, path
            assert HIDDEN not in page.content(), path
        assert visitor.complaints == []
        # The buttons are those of an operator of this flow, not of an editor.
        page.goto(f"/flows/{mine.pk}/")
        assert page.get_by_role("button", name="Simulate failover").is_enabled()
        assert page.get_by_role("button", name="Edit", exact=True).is_disabled()
        page.goto(f"/flows/{mine.pk}/configuration/")
        assert page.locator(f'form[action="/flows/{mine.pk}/labels/"]').count() == 0
        for path, status in ((f"/flows/{FAR + 1}/", 404), ("/people/", 403), ("/flows/", 200)):
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == status, path
        AccessGrant.objects.all().delete()
        answer = page.goto("/flows/")
        assert answer is not None
        assert answer.status == 403
        assert mine.name not in page.content()
    finally:
        visitor.context.close()
