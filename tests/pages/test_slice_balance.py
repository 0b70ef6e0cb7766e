"""How evenly a flow's bytes are distributed over its slices: its page, REST and /metrics."""

from __future__ import annotations

import dataclasses

import pytest
from django.test import Client
from django.utils import timezone

from mirrors.domain.flows.slice_packing import PackingVerdict
from mirrors.models import Flow
from monitoring.prometheus.metrics import scrape
from tests.pages import world

WAITS = PackingVerdict(
    state="waits", reason="Slice 2 copies 50% of the bytes.", ratio=2.0, best=1.1, packings=1,
    packed_at=1_700_000_000_000,
)  # fmt: skip
SERIES = 'understudy_flow_slice_imbalance_ratio{flow="primary->backup"'


@pytest.fixture
def flow(db: None) -> Flow:
    flow = world.busy()
    Flow.objects.update(as_of=timezone.now(), packing=dataclasses.asdict(WAITS))
    return flow


def test_the_page_rest_and_the_metrics_say_it(flow: Flow, admin_client: Client) -> None:
    page = admin_client.get(f"/flows/{flow.pk}/", follow=True).content.decode()
    assert "Slice 2 copies 50% of the bytes. Packed by observed bytes 1 time in this run" in page
    packing = admin_client.get(f"/api/v1/flows/{flow.pk}/").json()["packing"]
    assert (packing["state"], packing["ratio"], packing["best"]) == ("waits", 2.0, 1.1)
    assert packing["packed_at"].startswith("2023-11-14T22:13:20")
    text = scrape(now=timezone.now(), partitions=False).decode()
    assert f'{SERIES},source="primary",target="backup"}} 2.0' in text
    assert "understudy_flow_packings{" in text


def test_a_flow_that_does_not_copy_says_nothing(flow: Flow, admin_client: Client) -> None:
    Flow.objects.update(observed_state="stopped")
    page = admin_client.get(f"/flows/{flow.pk}/", follow=True).content.decode()
    assert "Slice 2" not in page
    assert admin_client.get(f"/api/v1/flows/{flow.pk}/").json()["packing"] is None
    assert SERIES not in scrape(now=timezone.now(), partitions=False).decode()
