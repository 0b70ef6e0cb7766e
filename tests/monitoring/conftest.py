"""A local receiver of webhooks with responses set by the test."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from monitoring.models import Channel


@dataclasses.dataclass
class Receiver:
    """`answers` are used up in turn; then it says 200. Each has `body`."""

    url: str
    got: list[tuple[dict[str, str], bytes]] = dataclasses.field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = dataclasses.field(default_factory=list)
    body: bytes = b""
    handler: Any = None
    paths: list[str] = dataclasses.field(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, body in self.got]


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers["Content-Length"])
            told.got.append((dict(self.headers), self.rfile.read(size)))
            told.paths.append(self.path)
            status, headers = told.answers.pop(0) if told.answers else (200, {})
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        told = Receiver(f"http://127.0.0.1:{server.server_port}/hook?a=1", handler=Handler)
        monkeypatch.setenv("UNDERSTUDY_NOTIFY_ALLOW", "127.0.0.1")
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield told
        server.shutdown()


@pytest.fixture
def channel(db: None, receiver: Receiver) -> Channel:
    return Channel.objects.create(name="hook", kind="webhook", target=receiver.url)
