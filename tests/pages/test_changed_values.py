"""The audit log shows what changed as `key: before → after`, without None."""

from __future__ import annotations

from django.contrib.auth.models import User
from django.test import Client

from mirrors.models.audit.transitions import changed_values


def test_values_are_words() -> None:
    detail = {
        "before": {"email": None, "is_active": True},
        "after": {"email": "a@b", "is_active": False},
    }
    assert changed_values(detail) == ["email: not set → a@b", "active: yes → no"]
    assert changed_values({"after": {"roles": ["viewer", "admin"]}}) == [
        "roles: not set → viewer, admin"
    ]
    assert changed_values(None) == []


def test_the_audit_page_shows_what_changed(admin: Client) -> None:
    person = User.objects.create_user("ann", password=None)
    person.email = "ann@example.org"
    person.save()
    page = admin.get("/audit/?q=ann").content.decode()
    assert "email: not set → ann@example.org" in page
    assert "None" not in page
