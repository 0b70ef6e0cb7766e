"""The permissions of a flow on its page, over REST and by command: the same text."""

from __future__ import annotations

import html
import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from mirrors.models import Flow, FlowTopic
from tests.api.conftest import (  # noqa: F401 - fixtures
    admin,
    flow,
    operator,
    people,
    two_clusters,
    viewer,
)

FORMS = ("kafka-acls", "strimzi", "terraform")


@pytest.mark.parametrize("form", FORMS)
def test_page_rest_and_command_agree(
    flow: dict[str, Any],  # noqa: F811
    viewer: APIClient,  # noqa: F811
    form: str,
) -> None:
    path = f"flows/{flow['id']}/permissions/?form={form}"
    found = viewer.get(f"/api/v1/{path}&failover=true").json()
    assert [side["side"] for side in found["sides"]] == ["source", "target"]
    client = Client()
    client.force_login(User.objects.get(username="viewer"))
    page = html.unescape(client.get(f"/{path}&failover=1").content.decode())
    out = io.StringIO()
    call_command("permissions", "primary->backup", form=form, failover=True, stdout=out)
    for side in found["sides"]:
        assert side["text"].strip() in page
        assert side["text"].strip() in out.getvalue()
    assert "Delete" in found["sides"][1]["text"]
    without = viewer.get(f"/api/v1/{path}").json()
    assert "Delete" not in without["sides"][1]["text"]


def test_names_that_no_prefix_covers_are_those_that_match_now(
    flow: dict[str, Any],  # noqa: F811
    viewer: APIClient,  # noqa: F811
) -> None:
    row = Flow.objects.get(pk=flow["id"])
    row.properties = {"topics": ".*-eu"}
    row.save()
    seen: dict[str, Any] = {"flow": row, "partitions": 1, "as_of": timezone.now()}
    FlowTopic.objects.create(topic="pay-eu", remote_topic="primary.pay-eu", state="in_sync", **seen)
    FlowTopic.objects.create(topic="pay-us", state="skipped", **seen)
    text = str(viewer.get(f"/api/v1/flows/{row.pk}/permissions/").json())
    assert "--topic pay-eu" in text
    assert "--topic primary.pay-eu" in text
    assert "pay-us" not in text


def test_unknown_flows_and_forms_are_said(
    flow: dict[str, Any],  # noqa: F811
    viewer: APIClient,  # noqa: F811
) -> None:
    wrong = viewer.get(f"/api/v1/flows/{flow['id']}/permissions/?form=yaml")
    assert wrong.status_code == 400
    assert "kafka-acls, strimzi, terraform" in wrong.json()["error"]["message"]
    with pytest.raises(CommandError, match=r"There is no flow a->b. Flows: primary->backup"):
        call_command("permissions", "a->b")
