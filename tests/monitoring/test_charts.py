"""Charts of a flow: they show the measured values, and no value is treated as markup."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mirrors.models import Flow, FlowObjectives
from monitoring.domain.history import FINE, HOUR, MINUTE, Sample
from monitoring.history import charts
from monitoring.history import samples as history
from monitoring.models import AlertRule, LagSample, TopicSample
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


def test_what_is_not_known_is_not_filled_and_rpo_is_drawn_in_steps() -> None:
    lags = [1_000, 4_000, None, 2_000, 2_000]
    samples = [
        Sample(at=NOW - timedelta(seconds=10 * (5 - at)), offset_lag=lag, time_lag_ms=lag)
        for at, lag in enumerate(lags)
    ]
    line, _, *areas = drawn("rpo", samples)["data"]
    assert line["line"]["shape"] == "hv"
    assert [area["y"] for area in areas] == [[1, 4], [2, 2]]
    assert drawn("bytes", samples)["data"][0]["line"]["shape"] == "linear"
    assert drawn("rpo", samples)["layout"]["meta"] == {"now": "2 s", "peak": "4 s"}
    assert drawn("bytes", samples)["layout"]["meta"] == {"now": "unknown", "peak": "unknown"}


def test_the_page_has_each_line_before_any_script_with_its_newest_and_highest_value(
    signed_in: As, flow: Flow
) -> None:
    for ago, lag in ((30, 9_000), (20, 1_000)):
        keep(flow, timedelta(seconds=ago), time_lag_ms=lag)
    world.topic(flow, "orders", state="lagging", offset_lag=12, time_lag_ms=4_000)
    world.topic(world.flow(), "elsewhere", state="lagging", offset_lag=12, time_lag_ms=4_000)
    text = signed_in("viewer").get(f"/flows/{flow.pk}/charts/").content.decode()
    frame = text.split('id="chart-rpo"')[1].split("</section>")[0]
    assert "latest <b data-chart-now>1 s</b> peak <b data-chart-peak>9 s</b>" in frame
    assert '<path class="line" d="M' in frame
    assert f'<div class="charts" data-color="{flow.pk % 8}">' in text
    topics = text.split("Top five topics")[1].split("</section>")[0]
    assert "orders" in topics
    assert "elsewhere" not in topics


def test_the_first_frame_breaks_where_the_chart_that_replaces_it_does() -> None:
    start, step = NOW - timedelta(seconds=100), timedelta(seconds=10)
    lags = {0: 1_000, 2: 1_000, 3: None, 4: 1_000, 8: 1_000}
    samples = [
        Sample(at=start + at * step, offset_lag=lag, time_lag_ms=lag) for at, lag in lags.items()
    ]
    line = charts.first_frame("rpo", samples, (start, NOW), step)
    assert line is not None
    assert line.values == (1, 1, 1, None, 1, None, None, None, 1, None)


def test_the_topics_that_were_furthest_behind_have_a_line_each(signed_in: As, flow: Flow) -> None:
    minute = MINUTE.slot(timezone.now()) - timedelta(minutes=5)
    for number in range(7):
        TopicSample.objects.create(
            flow=flow, topic=f"t{number}", resolution=60, at=minute, owed=1, records=0, bytes=0,
            time_lag_ms=number * 1_000,
        )  # fmt: skip
        world.topic(flow, f"t{number}")
    keep(flow, timedelta(minutes=4), resolution=60)
    text = signed_in("viewer").get(f"/flows/{flow.pk}/charts/").content.decode()
    topics = text.split("Top five topics")[1].split("</section>")[0]
    lines = re.findall(r'data-color="(\d)" data-values="[^"]*" data-name="(t\d)"', topics)
    # The worst is drawn last, on top.
    assert lines == [("4", "t2"), ("3", "t3"), ("2", "t4"), ("1", "t5"), ("0", "t6")]
    assert "peak 6 s" in topics
    assert f'href="/flows/{flow.pk}/topics/t6/"' in topics


def test_every_colour_is_a_variable_of_the_page() -> None:
    text = charts.figure("lag", samples=[], events=[], span=(NOW, NOW), objective=1.0)
    assert "#" not in text
    assert "var(--series)" in text
