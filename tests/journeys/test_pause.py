"""A flow paused under steady traffic: its RPO grows with the clock, and one alert says so."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from controlplane.demo.stack import DemoStack
from tests.journeys.demo_client import Person, Rest

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]
PAUSE_S, SAMPLE_S = 60.0, 10.0
# What a pause takes to begin and a resumed flow to copy the oldest record.
SLACK_S = 5.0
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


def curve(person: Person, flow: int) -> list[tuple[str, float]]:
    drawn = json.loads(person.read(f"/flows/{flow}/charts/rpo/?range=1h"))
    unit = UNITS[drawn["layout"]["yaxis"]["title"]["text"]]
    line = drawn["data"][0]
    pairs = zip(line["x"], line["y"], strict=True)
    return [(at, value * unit) for at, value in pairs if value is not None]


@pytest.fixture
def hook() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A receiver of webhooks on this machine: its address, and what it was told."""
    told: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", told
        server.shutdown()


def test_a_pause_of_a_minute_is_a_peak_of_a_minute_and_one_alert(
    stage: DemoStack, until: Callable[..., float], hook: tuple[str, list[dict[str, Any]]]
) -> None:
    rest, person = Rest(stage), Person(stage)
    address, told = hook
    channel = rest("channels/", {"name": "hook", "kind": "webhook", "target": address})
    (flow,) = [row["id"] for row in rest("flows/")["results"] if row["name"] == "primary->backup"]
    body = {"name": "paused", "kind": "time_lag", "flow": flow, "threshold": 30.0}
    rule = rest("alert-rules/", {**body, "for_seconds": 0})
    try:
        until(lambda: len(curve(person, flow)) >= 2, 60, "the chart has samples")
        began = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        rest(f"flows/{flow}/pause/", {})
        until(lambda: rest(f"flows/{flow}/")["observed_state"] == "paused", 30, "it is paused")
        time.sleep(PAUSE_S)
        rest(f"flows/{flow}/resume/", {})
        until(lambda: rest(f"flows/{flow}/")["observed_state"] == "running", 60, "it runs")

        def mine() -> list[dict[str, Any]]:
            rows = rest("alerts/?page_size=500")["results"]
            return [row for row in rows if row["rule"] in (rule["id"], rule["name"])]

        def heard() -> list[str]:
            return [one["what"] for one in told if one["rule"] == "paused"]

        until(lambda: mine() and all(row["resolved_at"] for row in mine()), 90, "it resolved")
        time.sleep(3 * SAMPLE_S)
        peak = max(value for at, value in curve(person, flow) if at >= began)
        assert PAUSE_S - SAMPLE_S <= peak <= PAUSE_S + SAMPLE_S + SLACK_S, curve(person, flow)
        (alert,) = mine()
        assert alert["fired_at"] is not None
        until(lambda: len(heard()) >= 2, 60, "the hook heard of the end")
        assert heard() == ["firing", "resolved"]
    finally:
        rest(f"channels/{channel['id']}/", method="DELETE")
        rest(f"alert-rules/{rule['id']}/", method="DELETE")
