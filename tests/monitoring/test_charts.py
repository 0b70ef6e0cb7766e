"""Charts of a flow: they show the measured values, and no value is treated as markup."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mirrors.models import Flow, FlowObjectives
from monitoring.domain.history import FINE, HOUR, MINUTE, Sample
from monitoring.history import charts
from monitoring.history import samples as history
from monitoring.models import AlertRule, LagSample
from tests.pages import world
from tests.pages.conftest import As, signed_in, silent_queue

__all__ = ["signed_in", "silent_queue"]

NOW = FINE.slot(timezone.now())


@pytest.fixture
def flow(db: None) -> Flow:
    return world.flow()


def keep(flow: Flow, ago: timedelta, resolution: int = 10, **facts: Any) -> None:
    given = {"offset_lag": 1, "time_lag_ms": 1000, "out_of_sync": 0, **facts}
    LagSample.objects.create(flow=flow, resolution=resolution, at=NOW - ago, **given)


def drawn(name: str, samples: list[Sample], **more: Any) -> dict[str, Any]:
    span = (NOW - timedelta(hours=1), NOW)
    more = {"events": [], **more}
    return json.loads(charts.figure(name, samples=samples, span=span, **more))


def test_the_newest_steps_of_a_long_range_come_from_finer_rows(flow: Flow) -> None:
    keep(flow, timedelta(hours=3), HOUR.seconds, time_lag_ms=3)
    keep(flow, timedelta(minutes=90), MINUTE.seconds, time_lag_ms=2)
    keep(flow, timedelta(hours=3), MINUTE.seconds, time_lag_ms=99)
    keep(flow, timedelta(seconds=20), FINE.seconds, time_lag_ms=1)
    found = history.samples(flow=flow, over=history.RANGES["30d"], now=NOW)
    assert [sample.time_lag_ms for sample in found] == [3, 2, 1]
    assert history.samples(flow=flow, over=history.RANGES["1h"], now=NOW)[0].time_lag_ms == 1


def test_units_follow_the_values_and_the_text_says_them_in_words() -> None:
    sample = Sample(at=NOW, offset_lag=4112, time_lag_ms=7_320_000, bytes_per_second=41e6)
    rpo = drawn("rpo", [sample])
    assert rpo["layout"]["yaxis"]["title"]["text"] == "h"
    assert rpo["data"][0]["text"] == ["2 h 2 min"]
    assert rpo["data"][0]["y"] == [pytest.approx(2.0333, rel=1e-3)]
    assert drawn("lag", [sample])["data"][0]["text"] == ["4,112 records"]
    assert drawn("bytes", [sample])["layout"]["yaxis"]["title"]["text"] == "MB/s"
    assert drawn("records", [sample])["data"][0]["y"] == [None]


def test_an_objective_is_a_dashed_line_unless_it_would_flatten_the_curve() -> None:
    sample = Sample(at=NOW, offset_lag=1, time_lag_ms=9_000)
    assert len(drawn("rpo", [sample], objective=30.0)["layout"]["shapes"]) == 1
    assert "shapes" not in drawn("rpo", [sample], objective=9_000.0)["layout"]


def test_the_dashed_line_is_the_flows_own_objective_before_any_rule(
    signed_in: As, flow: Flow
) -> None:
    keep(flow, timedelta(seconds=20), time_lag_ms=40_000)
    viewer = signed_in("viewer")

    def line() -> list[float]:
        layout = viewer.get(f"/flows/{flow.pk}/charts/rpo/?range=1h").json()["layout"]
        return [shape["y0"] for shape in layout["shapes"]]

    AlertRule.objects.filter(kind="time_lag").update(threshold=55)
    assert line() == [55]
    FlowObjectives.objects.create(flow=flow, rpo_seconds=77, set_by="ann")
    assert line() == [77]


def test_changes_of_the_flow_are_strokes_whose_words_are_no_markup(flow: Flow) -> None:
    world.transition(flow, who='<a href="https://x">a</a>', when=NOW, from_state="running")
    changes = list(history.events(flow=flow, over=history.DEFAULT, now=NOW))
    [text] = drawn("lag", [], events=changes)["data"][1]["text"]
    assert text.startswith("running → running, &lt;a href")
    assert "<" not in text


def test_every_colour_is_a_variable_of_the_page() -> None:
    text = charts.figure("lag", samples=[], events=[], span=(NOW, NOW), objective=1.0)
    assert "#" not in text
    assert "var(--ink)" in text
