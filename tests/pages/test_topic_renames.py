"""The form has a field for other names of topics, and Explain shows the rule of a topic."""

from __future__ import annotations

from django.test import Client

from mirrors.models import Cluster, Flow
from tests.pages import world
from tests.pages.test_flow_forms import FLOW
from tests.pages.world import error_at


def test_rules_stand_one_a_line(admin: Client, pair: tuple[Cluster, Cluster]) -> None:
    text = admin.get("/add/flow/").content.decode()
    assert 'name="topic_rename"' in text
    assert '<span class="key">topic.rename</span>' in text
    assert 'placeholder="no other names"' in text
    rules = "orders\\.(.*) -&gt; west_$1,\r\n(.*)-eu -> $1\r\n".replace("&gt;", ">")
    admin.post("/add/flow/", {**FLOW, "topic_rename": rules})
    found = Flow.objects.get().properties["topic.rename"]
    assert found == r"orders\.(.*) -> west_$1,(.*)-eu -> $1"


def test_a_rule_that_cannot_be_used_is_shown_at_the_field(
    admin: Client, pair: tuple[Cluster, Cluster]
) -> None:
    answer = admin.post("/add/flow/", {**FLOW, "topic_rename": "(orders -> x"})
    assert answer.status_code == 422
    assert "a bracket ( that is not closed" in error_at(answer.content.decode(), "topic_rename")
    both = {"properties": "topic.rename=a -> b"}
    said = admin.post("/add/flow/", {**FLOW, **both}).content.decode()
    assert "topic.rename has its own field above." in error_at(said, "properties")


def test_explain_names_the_rule(admin: Client) -> None:
    flow = world.flow(properties={"topics": ".*", "topic.rename": "orders -> sales"}, as_of=None)
    text = admin.get(f"/flows/{flow.pk}/explain/?topic=orders").content.decode()
    assert 'is replicated to <span class="name">sales</span>' in text
    assert "rule 1 of topic.rename (orders -&gt; sales) names it sales" in text
