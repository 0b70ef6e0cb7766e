"""A small registry for what a real one does not do on demand: errors, modes, TLS, silence."""

from __future__ import annotations

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class FakeRegistry:
    """Answers each path from a table; without an entry 404 with Confluent's error."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.answers: dict[str, tuple[int, Any]] = {"/subjects": (200, ["a"])}
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.location = ""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.headers.append(dict(self.headers))
                fake.paths.append(self.path)
                missing = (404, {"error_code": 40403, "message": "Schema not found"})
                status, body = fake.answers.get(self.path, missing)
                self.send_response(status)
                if fake.location:
                    self.send_header("Location", fake.location)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        scheme = "http"
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
