"""The template form and its REST call: a preview that names conflicts, then all flows or none."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from mirrors.domain.settings.table import IDENTITY_POLICY
from mirrors.models import Cluster, Flow, Transition
from tests.pages import world
from tests.pages.conftest import As

PATH = "/add/template/"


@pytest.fixture
def operator(signed_in: As) -> Client:
    for alias in ("lake", "east", "west", "north"):
        world.cluster(alias)
    return signed_in("operator")


def _seen(text: str) -> str:
    found = re.search(r'name="seen" value="(\w+)"', text)
    return found[1] if found else ""


def _visible_text(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


HUB = {"kind": "hub", "first": "lake", "others": ["east", "west"], "topics": "orders.*"}


def test_a_hub_is_previewed_and_made_with_a_second_click(operator: Client) -> None:
    page = operator.post(PATH, HUB).content.decode()
    assert "east→lake can be made west→lake can be made" in _visible_text(page)
    assert not Flow.objects.exists()
    answer = operator.post(PATH, {**HUB, "seen": _seen(page), "apply": "make"})
    assert answer["Location"] == "/topology/"
    made = list(Flow.objects.order_by("pk"))
    assert [flow.name for flow in made] == ["east->lake", "west->lake"]
    assert {flow.desired_state for flow in made} == {"stopped"}
    assert made[0].properties == {"topics": "orders.*"}
    assert Transition.objects.filter(subject="flow", who="the-operator").count() == 2


def test_they_can_be_started_with_the_same_click(operator: Client) -> None:
    page = operator.post(PATH, HUB).content.decode()
    operator.post(PATH, {**HUB, "seen": _seen(page), "apply": "start"})
    assert set(Flow.objects.values_list("desired_state", flat=True)) == {"running"}


def test_a_loop_is_named_and_there_is_nothing_to_click(operator: Client) -> None:
    asked = {
        "kind": "active-active",
        "first": "east",
        "others": ["west"],
        "replication_policy_class": IDENTITY_POLICY,
        "apply": "make",
    }
    answer = operator.post(PATH, asked)
    text = answer.content.decode()
    assert answer.status_code == 422
    assert _visible_text(text).count("would be replicated in an endless loop") == 2
    assert _seen(text) == ""
    assert not Flow.objects.exists()


def test_one_flow_that_exists_already_stops_all(operator: Client) -> None:
    world.flow(_cluster("east"), _cluster("lake"))
    text = operator.post(PATH, HUB).content.decode()
    assert "east→lake already exists" in text
    assert _seen(text) == ""


def _cluster(alias: str) -> Cluster:
    return Cluster.objects.get(alias=alias)


def test_what_changed_since_the_preview_is_shown_again(operator: Client) -> None:
    page = operator.post(PATH, HUB).content.decode()
    other = {**HUB, "others": ["east", "north"], "seen": _seen(page), "apply": "make"}
    text = operator.post(PATH, other).content.decode()
    assert "north→lake" in text
    assert not Flow.objects.exists()


def test_a_chain_goes_by_the_places_given(operator: Client) -> None:
    places = {f"place-{_cluster('west').pk}": "2", f"place-{_cluster('east').pk}": "3"}
    asked = {"kind": "chain", "first": "lake", "others": ["east", "north", "west"], **places}
    text = _visible_text(operator.post(PATH, asked).content.decode())
    assert re.search("lake→west .* west→east .* east→north ", text)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"others": []}, "at least two clusters"),
        ({"kind": "active-passive"}, "needs 2 clusters, not 3"),
        ({"first": ""}, "This field is required."),
        ({"properties": "topcs=x"}, "Did you mean topics?"),
        ({"properties": "topics=x"}, "topics has its own field above."),
        ({"kind": "star"}, "Select a valid choice"),
    ],
)
def test_a_mistake_is_named_and_nothing_is_made(
    operator: Client, change: dict[str, Any], words: str
) -> None:
    answer = operator.post(PATH, {**HUB, **change, "apply": "make"})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert not Flow.objects.exists()


def test_the_form_takes_the_same_few_queries_for_many_clusters(operator: Client) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            assert operator.get(PATH).status_code == 200
        return len(seen)

    few = queries()
    for _ in range(20):
        world.cluster()
    assert queries() == few
    assert few <= 8


def test_over_rest_it_is_a_preview_then_all_or_none(operator: Client, viewer: Client) -> None:
    asked: dict[str, Any] = {"kind": "chain", "clusters": ["lake", "west", "east"]}
    path, form = "/api/v1/templates/", "application/json"
    assert viewer.post(path, asked, form).status_code == 403
    assert [one["kind"] for one in viewer.get(path).json()][:2] == [
        "active-passive",
        "active-active",
    ]
    preview = operator.post(path, asked, form).json()
    assert preview["applicable"]
    assert [flow["name"] for flow in preview["flows"]] == ["lake->west", "west->east"]
    stale = operator.post(path, {**asked, "digest": "other"}, form)
    assert stale.status_code == 409
    made = operator.post(path, {**asked, "digest": preview["digest"]}, form)
    assert made.status_code == 201
    assert sorted(made.json()["created"]) == sorted(Flow.objects.values_list("pk", flat=True))
    again = operator.post(path, {**asked, "digest": preview["digest"]}, form)
    assert again.status_code == 400
    assert "already exists" in str(again.json()["error"]["fields"])
    unknown = operator.post(path, {**asked, "clusters": ["lake", "mars"]}, form)
    assert "There is no cluster mars." in str(unknown.json())
