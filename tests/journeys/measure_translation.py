"""python -m tests.journeys.measure_translation [DIR]: 1,000 offsets translated while records flow.

Asks the demo that runs in DIR (.demo) for offsets at and around where its flow stands at that
moment, so that what the database knows is always a little old and has to be brought up first. Each
question is preceded by a small one to the same server: what this machine takes for nothing at all.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

OFFSETS = 1000
PAUSE_S = 0.7


class Server:
    def __init__(self, facts: dict[str, Any]) -> None:
        self._url, self._token = facts["url"], facts["token"]

    def __call__(self, path: str, body: dict[str, Any] | None = None) -> Any:
        request = urllib.request.Request(  # noqa: S310 - the address is the demo's own
            f"{self._url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Token {self._token}",
                "Content-Type": "application/json",
            },
        )
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            text = reply.read()
        return json.loads(text) if text.startswith(b"{") else text


def places(server: Server, flow: int) -> list[dict[str, Any]]:
    """Where the flow stood when its partitions were last looked at, and the offsets before that."""
    rows = server(f"/api/v1/flows/{flow}/partitions/?page_size=200")["results"]
    known = [(row["topic"], row["partition"], row["position"]) for row in rows if row["position"]]
    found = []
    for back in range(OFFSETS):
        for topic, partition, position in known:
            offset = max(0, position - back * 7)
            found.append({"topic": topic, "partition": partition, "offset": offset})
            if len(found) == OFFSETS:
                return found
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", nargs="?", default=".demo", type=Path)
    parser.add_argument("--times", default=60, type=int)
    parser.add_argument("--flow", default=1, type=int)
    chosen = parser.parse_args()
    server = Server(json.loads((chosen.directory / "demo.json").read_text()))
    took, nothing, outcomes = [], [], Counter[str]()
    for _ in range(chosen.times):
        body = {"flow": chosen.flow, "offsets": places(server, chosen.flow)}
        nothing.append(_timed(server, "/healthz", None)[0])
        seconds, answer = _timed(server, "/api/v1/offsets/translate/", body)
        took.append(seconds)
        outcomes.update(row["outcome"] for row in answer["offsets"])
        time.sleep(PAUSE_S)
    print(f"{OFFSETS} offsets: {_told(took)}")  # noqa: T201
    print(f"nothing at all: {_told(nothing)}")  # noqa: T201
    print(f"outcomes: {dict(outcomes)}")  # noqa: T201


def _timed(server: Server, path: str, body: dict[str, Any] | None) -> tuple[float, Any]:
    started = time.perf_counter()
    answer = server(path, body)
    return time.perf_counter() - started, answer


def _told(seconds: list[float]) -> str:
    rows = sorted(seconds)
    late = statistics.quantiles(rows, n=20)[-1]
    figures = (rows[0], statistics.median(rows), late, rows[-1])
    least, median, p95, most = (f"{1000 * figure:.0f}" for figure in figures)
    return f"least {least} ms, median {median} ms, p95 {p95} ms, most {most} ms"


if __name__ == "__main__":
    main()
