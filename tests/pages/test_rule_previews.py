"""The page of a preview of rules: for operators, with saved rules or those of a flow's form."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Flow, RulePreview
from tests.pages import world
from tests.pages.conftest import As

RULES = '[{"topics": "orders", "where": "value is not null", "value": "json_drop(value, \'a\')"}]'


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.flow(properties={"topics": "orders, payments", "transforms": RULES})
    world.topic(flow, "orders", remote_topic="remote.orders")
    world.topic(flow, "payments", remote_topic="remote.payments")
    return flow


def page(client: Client, flow: Flow, query: str = "") -> str:
    return client.get(f"/flows/{flow.pk}/rules/{query}").content.decode()


def test_a_preview_is_requested_and_its_state_is_said(signed_in: As, flow: Flow) -> None:
    operator = signed_in("operator")
    form = page(operator, flow)
    assert 'name="topic" value="orders"' in form
    assert "json_drop(value, &#x27;a&#x27;)" in form
    # The form shows the rules on several lines: as such they are not edited.
    body = {"topic": "orders", "count": "7", "transforms": json.dumps(json.loads(RULES), indent=2)}
    answer = operator.post(f"/flows/{flow.pk}/rules/", body)
    row = RulePreview.objects.get()
    assert answer["Location"] == f"/flows/{flow.pk}/rules/?preview={row.pk}#preview-title"
    assert (row.topic, row.count, row.is_edited, row.requested_by) == (
        *("orders", 7, False, "the-operator"),
    )
    waiting = page(operator, flow, f"?preview={row.pk}")
    assert "A worker reads the newest records of orders." in waiting
    assert 'data-every="1"' in waiting
    RulePreview.objects.update(handed_at=timezone.now())
    assert "evaluates the rules" in page(operator, flow, f"?preview={row.pk}")
    RulePreview.objects.update(requested_at=timezone.now() - timedelta(seconds=121))
    assert "No worker answered within two minutes" in page(operator, flow, f"?preview={row.pk}")


def test_records_are_shown_before_and_after(signed_in: As, flow: Flow) -> None:
    operator = signed_in("operator")
    row = world.rule_preview(flow)
    text = page(operator, flow, f"?preview={row.pk}")
    assert "<b>4 records</b> looked at: 1 changed, 1 dropped, 1 failed, 1 unchanged" in text
    assert "unchanged. Rule 1 (orders) drops records and changes value." in text
    assert "A record that fails stops its partition" in text
    assert 'No previewed record has <span class="name">crad</span> (json_drop)' in text
    assert "Partition 1 was not read: It has no leader." in text
    assert "Partition 0: 4 before offset 4" in text
    assert "value: [CAST_INVALID_INPUT] It cannot be cast." in text
    assert "h=&lt;x&gt;" in text
    assert "data-every" not in text.split("<main")[1]
    file = operator.get(f"/flows/{flow.pk}/rules/?preview={row.pk}&as=json&of=records")
    rows = json.loads(file.getvalue())
    assert [one["outcome"] for one in rows] == ["kept", "changed", "dropped", "failed"]
    assert (rows[1]["before_value"], rows[1]["after_value"]) == ('{"card": 1}', "{}")
    assert rows[2]["after_value"] is None


def test_a_rejected_rule_is_shown_with_its_number_and_field(signed_in: As, flow: Flow) -> None:
    found = {"rejections": [{"number": 2, "field": "where", "message": "[PARSE] `<b>` is wrong."}]}
    packed = world.packed(found)
    row = world.rule_preview(flow, result=packed, error="Spark rejects rule 2.")
    text = page(signed_in("operator"), flow, f"?preview={row.pk}")
    assert "Spark rejects rule 2, where: [PARSE] `&lt;b&gt;` is wrong." in text
    assert "looked at" not in text


def test_what_cannot_be_previewed_is_refused_at_its_field(signed_in: As, flow: Flow) -> None:
    operator, address = signed_in("operator"), f"/flows/{flow.pk}/rules/"
    for change, field, sentence in (
        ({"topic": "customers"}, "topic", "does not replicate customers"),
        ({"count": "501"}, "count", "less than or equal to 500"),
        ({"transforms": '[{"topics": "a", "where": "x = 1"}]'}, "transforms", "which is no column"),
        ({"transforms": ""}, "transforms", "has no rules"),
    ):
        answer = operator.post(
            address, {"topic": "orders", "count": "5", "transforms": RULES, **change}
        )
        assert answer.status_code == 422, change
        assert world.error_at(answer.content.decode(), field)
        assert sentence in answer.content.decode()
    assert not RulePreview.objects.exists()


def test_the_form_of_a_flow_brings_the_rules_that_it_edits(signed_in: As, flow: Flow) -> None:
    operator = signed_in("operator")
    form = operator.get(f"/flows/{flow.pk}/edit/").content.decode()
    assert f'formaction="/flows/{flow.pk}/rules/"' in form
    edited = RULES.replace("json_drop", "json_keep")
    answer = operator.post(f"/flows/{flow.pk}/rules/", {"topics": "o", "transforms": edited})
    assert answer.status_code == 200
    assert "json_keep(value" in answer.content.decode()
    assert not RulePreview.objects.exists()


def test_a_flow_s_pages_link_the_preview_for_those_who_may_read_records(
    signed_in: As, flow: Flow
) -> None:
    operator, viewer = signed_in("operator"), signed_in("viewer")
    link = f'href="/flows/{flow.pk}/rules/'
    for part in ("topics", "configuration"):
        address = f"/flows/{flow.pk}/{part}/"
        assert link in operator.get(address).content.decode()
        assert link not in viewer.get(address).content.decode()
    assert viewer.get(f"/flows/{flow.pk}/rules/").status_code == 403
    row = world.rule_preview(world.flow())
    assert "looked at" not in page(operator, flow, f"?preview={row.pk}")
