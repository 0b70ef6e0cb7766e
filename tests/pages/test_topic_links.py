"""Each page that names a topic of a flow links to the topic's page."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.models import Comparison, Flow, FlowPartition, PositionChange
from tests.pages import world
from tests.pages.full import full


@pytest.fixture
def flow(db: None) -> Flow:
    return full()


PAGES = {
    "overview": "/",
    "flow": "/flows/{pk}/",
    "topics": "/flows/{pk}/topics/",
    "partitions": "/flows/{pk}/partitions/",
    "gaps": "/flows/{pk}/gaps/",
    "gap": "/flows/{pk}/gaps/{pk}/",
    "group-partitions": "/flows/{pk}/groups/",
    "consumer group": "/flows/{pk}/group/?group=app",
    "left behind": "/flows/{pk}/left-behind/",
    "simulation": "/failovers/{pk}/",
    "failover": "/failovers/{next}/",
    "application": "/flows/{pk}/failover/application/?topics=orders",
    "divergence": "/flows/{pk}/failback/",
    "orphans": "/failbacks/{pk}/",
    "records of orphans": "/failbacks/{pk}/orphans/{pk}/",
    "compared partitions": "/comparisons/{compared}/partitions/",
    "findings of a comparison": "/comparisons/{compared}/",
}


@pytest.mark.parametrize("page", PAGES)
def test_a_topic_is_a_link_to_its_page(admin: Client, flow: Flow, page: str) -> None:
    numbers = {"pk": flow.pk, "next": flow.pk + 1, "compared": Comparison.objects.latest("pk").pk}
    text = admin.get(PAGES[page].format(**numbers)).content.decode()
    body = text[text.index("<main") :]
    links = re.findall(rf'href="(/flows/{flow.pk}/topics/[^/"?]+/)"', body)
    assert links, f"no topic is a link on {PAGES[page]}"
    for link in set(links):
        assert admin.get(unquote(link), follow=True).status_code == 200


def test_a_preview_of_positions_links_to_topics(admin: Client, flow: Flow) -> None:
    rows = [
        {"topic": "orders", "partition": 0, "position": 5, "to": 3, "effect": "copied_again",
         "offsets": 2, "first": 0, "end": 9, "refusal": ""}
    ]  # fmt: skip
    now = timezone.now()
    PositionChange.objects.create(
        flow=flow, topics="orders", to="3", requested_at=now, previewed_at=now, rows=rows
    )
    text = admin.get(f"/flows/{flow.pk}/positions/").content.decode()
    assert f'href="/flows/{flow.pk}/topics/orders/"' in text


def test_the_name_of_a_remote_topic_leads_to_its_source_topic(viewer: Client, flow: Flow) -> None:
    answer = viewer.get(f"/flows/{flow.pk}/topics/primary.orders/")
    assert (answer.status_code, answer["Location"]) == (302, f"/flows/{flow.pk}/topics/orders/")


def test_a_topic_that_the_flow_does_not_know_leads_to_its_explanation(
    viewer: Client, flow: Flow
) -> None:
    answer = viewer.get(f"/flows/{flow.pk}/topics/no%20such%26/")
    assert answer["Location"] == f"/flows/{flow.pk}/explain/?topic=no+such%26"


def test_a_name_that_looks_like_markup_is_escaped(viewer: Client, flow: Flow) -> None:
    world.topic(flow, "a<b>&c")
    FlowPartition.objects.filter(flow=flow).update(topic="a<b>&c")
    text = viewer.get(f"/flows/{flow.pk}/partitions/").content.decode()
    assert "a<b>" not in text
    assert f'href="/flows/{flow.pk}/topics/a%3Cb%3E&amp;c/"' in text


def test_a_name_that_nothing_has_leads_to_its_explanation_in_each_flow(
    viewer: Client, flow: Flow
) -> None:
    page = viewer.get("/search/?q=nosuch%26x").content.decode()
    assert f'href="/flows/{flow.pk}/explain/?topic=nosuch%26x"' in page
    assert "explain/?topic" not in viewer.get("/search/?q=primary").content.decode()
    assert "explain/?topic" not in viewer.get("/search/").content.decode()
