"""After an upgrade, topics owe what their lag said before there was an account."""

from __future__ import annotations

import importlib

import pytest
from django.apps import apps

from mirrors.models import FlowTopic
from tests.pages import world


@pytest.mark.django_db
def test_rows_of_before_the_account_do_not_owe_nothing() -> None:
    flow = world.flow()
    for name, lag in (("behind", 5), ("dark", None), ("calm", 0)):
        world.topic(flow, name, offset_lag=lag)
    FlowTopic.objects.update(
        owed=0, least=0, unknown_partitions=0, certainty="counted", states={}, observed_at=None
    )
    importlib.import_module("mirrors.migrations.0040_owed_before_the_account").carry_over(
        apps, None
    )
    found = {
        row.topic: (row.owed, row.unknown_partitions, row.certainty)
        for row in FlowTopic.objects.all()
    }
    assert found == {
        "behind": (5, 0, "at_most"),
        "dark": (0, 3, "unknown"),
        "calm": (0, 0, "counted"),
    }
