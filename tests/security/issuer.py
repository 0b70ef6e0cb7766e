"""A real OAuth token endpoint for tests: client credentials in, signed JWTs out, keys published."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

AUDIENCE = "kafka"
KEY_ID = "test-key"


class Issuer:
    """Serves `/token`, `/jwks` and endpoints that misbehave; `served` counts the tokens."""

    def __init__(self, client: str, secret: str) -> None:
        self.client, self.secret = client, secret
        self.served = 0
        self.scopes: list[str] = []
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._stranger = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._server = ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Handler", (_Handler,), {"issuer": self})
        )
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def keys(self) -> dict[str, Any]:
        numbers = self._key.public_key().public_numbers()
        return {
            "keys": [
                {
                    "kty": "RSA",
                    "alg": "RS256",
                    "use": "sig",
                    "kid": KEY_ID,
                    "n": _encode(numbers.n.to_bytes(256, "big")),
                    "e": _encode(numbers.e.to_bytes(3, "big")),
                }
            ]
        }

    def token(self, *, lifetime: int = 300, foreign: bool = False) -> dict[str, Any]:
        now = int(time.time())
        head = {"alg": "RS256", "typ": "JWT", "kid": KEY_ID}
        claims = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": self.client,
            "scope": "kafka",
            "iat": now,
            "exp": now + lifetime,
        }
        signed = f"{_encode(json.dumps(head).encode())}.{_encode(json.dumps(claims).encode())}"
        key = self._stranger if foreign else self._key
        signature = key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        self.served += 1
        return {
            "access_token": f"{signed}.{_encode(signature)}",
            "token_type": "Bearer",
            "expires_in": lifetime,
        }


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_GET(self) -> None:
        found = self.path == "/jwks"
        self._answer(200 if found else 404, self.issuer.keys() if found else {})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        form = urllib.parse.parse_qs(self.rfile.read(length).decode())
        self.issuer.scopes.extend(form.get("scope", []))
        if self.path == "/slow":
            self._drip()
        elif self.path == "/page":
            self._answer(200, "<html>Sign in</html>")
        elif not self._knows_client():
            said = base64.b64decode(self.headers.get("Authorization", "").removeprefix("Basic "))
            self._answer(401, {"error": "invalid_client", "echo": said.decode()})
        else:
            lifetime = 4 if self.path == "/short" else 300
            foreign = self.path == "/foreign"
            self._answer(200, self.issuer.token(lifetime=lifetime, foreign=foreign))

    def _knows_client(self) -> bool:
        pair = base64.b64encode(f"{self.issuer.client}:{self.issuer.secret}".encode()).decode()
        return self.headers.get("Authorization") == f"Basic {pair}"

    def _drip(self) -> None:
        # Each byte comes in time for a socket's time-out, all of them never do.
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(100):
                self.wfile.write(b" ")
                self.wfile.flush()
                time.sleep(0.1)

    def _answer(self, status: int, body: Any) -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass
