"""Rules on records in the form of a flow and on its page."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from mirrors.models import Cluster, Flow
from tests.pages import world
from tests.pages.world import error_at

FLOW = {"source": "primary", "target": "backup"}
TEXT = """\
[
  {
    "topics": "orders.*",
    "where": "value is not null and
              partition >= 0",
    "value": "json_drop(value, 'card')",
    "on_error": "stop"
  },
  {"topics": "audit<b>"}
]
"""
STORED = (
    '[{"topics": "orders.*", "where": "value is not null and\\n              partition >= 0", '
    '"value": "json_drop(value, \'card\')"}, {"topics": "audit<b>"}]'
)


def test_rules_of_several_lines_are_stored_in_one(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    answer = admin.post("/add/flow/", {**FLOW, "transforms": TEXT})
    flow = Flow.objects.get()
    assert answer.status_code == 302
    assert flow.properties["transforms"] == STORED
    after = admin.get(f"/flows/{flow.pk}/").content.decode()
    assert f'is created. <a href="/flows/{flow.pk}/rules/">Preview its rules</a>' in after
    form = admin.get(f"/flows/{flow.pk}/edit/").content.decode()
    assert "&quot;value&quot;: &quot;json_drop(value, &#x27;card&#x27;)&quot;" in form
    # Saved again without a change.
    unchanged = admin.post(f"/flows/{flow.pk}/edit/", {**FLOW, "transforms": TEXT}, follow=True)
    assert "was not changed" in unchanged.content.decode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[\n{"topics": "a",\n "where" "b"}]', "is not JSON: Expecting &#x27;:&#x27; delimiter, "),
        ('[\n{"topics": "a",\n "where" "b"}]', "at line 3, character 10"),
        ('[{"topics": "a"}, {"topics": "b", "where": 5}]', "rule 2, where: must be a Spark SQL"),
        ('[{"topics": "a", "where": "vlaue = 1"}]', "rule 1, where: names &#x27;vlaue&#x27;, whi"),
        ('[{"topics": "a", "value": "hmac_value(value, \'env:PATH\')"}]', "rule 1, value: The se"),
    ],
)
def test_an_error_in_a_rule_is_shown_at_the_field_with_its_number(
    admin: Client, pair: tuple[Cluster, Cluster], text: str, words: str
) -> None:
    answer = admin.post("/add/flow/", {**FLOW, "transforms": text})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert error_at(page, "transforms")
    assert words in page
    assert not Flow.objects.exists()


def test_the_key_has_its_own_field(admin: Client, pair: tuple[Cluster, Cluster]) -> None:
    answer = admin.post("/add/flow/", {**FLOW, "properties": "transforms=[]"})
    assert "transforms has its own field above." in answer.content.decode()


def test_the_page_of_a_flow_says_which_rule_changes_what(admin: Client) -> None:
    flow = world.flow(properties={"transforms": STORED})
    for name in ("orders-eu", "orders-us", "payments"):
        world.topic(flow, name, remote_topic=f"remote.{name}")
    page = admin.get(f"/flows/{flow.pk}/configuration/").content.decode()
    assert "Rules on records" in page
    assert "value = json_drop(value, &#x27;card&#x27;)" in page
    assert "orders-eu, orders-us" in page
    assert "audit&lt;b&gt;" in page
    file = admin.get(f"/flows/{flow.pk}/configuration/?as=json&of=transforms")
    rows = json.loads(file.getvalue())
    assert [(row["number"], row["matched"]) for row in rows] == [(1, 2), (2, 0)]


def test_the_list_of_topics_says_what_happens_to_their_records(admin: Client) -> None:
    flow = world.flow(properties={"transforms": STORED})
    world.topic(flow, "orders-eu", remote_topic="remote.orders-eu")
    world.topic(flow, "payments", remote_topic="remote.payments")
    page = admin.get(f"/flows/{flow.pk}/topics/").content.decode()
    assert page.count("rule 1 (orders.*) drops records and changes value") == 1
    assert "no rule matches it" not in page


def test_the_page_of_a_topic_names_its_rule_and_its_routes(admin: Client) -> None:
    rule = '[{"topics": "orders", "topic": "\'orders-eu\'", "routes": ["orders-eu", "orders-ap"]}]'
    flow = world.flow(properties={"transforms": rule})
    world.topic(flow, "orders", remote_topic="remote.orders")
    world.topic(flow, "payments", remote_topic="remote.payments")
    page = admin.get(f"/flows/{flow.pk}/topics/orders/").content.decode()
    assert "rule 1 (orders) routes records to orders-eu, orders-ap" in page
    assert '<br><span class="name">orders-ap</span>' in page
    assert f'/flows/{flow.pk}/rules/?topic=orders">Preview of the rule</a>' in page
    assert "Preview of the rule" not in admin.get(f"/flows/{flow.pk}/topics/payments/").text


def test_the_explanation_of_a_topic_names_its_rule(admin: Client) -> None:
    flow = world.flow(properties={"transforms": STORED})
    page = admin.get(f"/flows/{flow.pk}/explain/?topic=orders-eu").content.decode()
    assert "rule 1 (orders.*) drops records and changes value" in page


def test_a_flow_without_rules_does_not_mention_them(
    admin: Client,
) -> None:
    flow = world.flow()
    page = f"/flows/{flow.pk}/configuration/"
    assert "Rules on records" not in admin.get(page).content.decode()
    assert ">transforms<" in admin.get(page).content.decode()
