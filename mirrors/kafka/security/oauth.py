"""OAUTHBEARER tokens: fetched by client credentials or signed for Amazon MSK, renewed in time.

This program fetches them, not librdkafka, so that every client has the same rules and errors.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
from typing import Any

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.settings.connection import MSK_REGION
from mirrors.domain.settings.value_types import Extensions
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.dns import resolve_host
from mirrors.kafka.security import cleartext_logins, egress, live_secrets, secrets
from mirrors.kafka.security.keystores import certificates_of
from mirrors.kafka.security.msk_iam import sign_token
from mirrors.kafka.security.secrets import Secret

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
SCOPE = "sasl.oauthbearer.scope"
EXTENSIONS = "sasl.oauthbearer.extensions"
DEADLINE_S = 10.0
MAX_BYTES = 64 * 1024
DEFAULT_LIFETIME_S = 300.0
# librdkafka asks again at 80 % of the life we tell it, up to a second late, and logs in again at
# 90 % of the life the broker knows: so we tell it less, and have renewed the token by then.
REPORTED_LIFETIME_SHARE = 0.75
RENEW_AFTER = 0.5


@dataclasses.dataclass(frozen=True)
class Token:
    """An access token, and when it was fetched and expires, in seconds since the epoch."""

    value: Secret
    fetched_at: float
    expires_at: float

    @property
    def lifetime(self) -> float:
        return self.expires_at - self.fetched_at

    def is_fresh(self, now: float) -> bool:
        return now < self.fetched_at + self.lifetime * RENEW_AFTER


class TokenSource:
    """The current token of one cluster. Threads and clients may share it."""

    def __init__(self, spec: ClusterSpec) -> None:
        self.spec = spec
        self._lock = threading.Lock()
        self._token: Token | None = None

    def __repr__(self) -> str:
        return f"TokenSource({self.spec.alias})"

    def token(self, deadline_s: float = DEADLINE_S) -> Token:
        ends = time.monotonic() + deadline_s
        if not self._lock.acquire(timeout=deadline_s):
            raise KafkaUnavailable(
                f"The token endpoint of cluster {self.spec.alias} does not respond to another "
                "request yet.",
                code="oauth_unreachable",
            )
        try:
            if self._token is None or not self._token.is_fresh(time.time()):
                left = max(0.1, ends - time.monotonic())
                self._token = fetch_token(self.spec, deadline_s=left)
            return self._token
        finally:
            self._lock.release()

    @property
    def extensions(self) -> dict[str, str]:
        """SASL extensions that a broker gets with the token."""
        text = self.spec.properties.get(EXTENSIONS)
        return Extensions().parse(text) if text else {}

    def for_librdkafka(self, _config: str) -> tuple[str, float, str, dict[str, str]]:
        """`oauth_cb` of confluent-kafka."""
        token = self.token()
        ends = token.fetched_at + token.lifetime * REPORTED_LIFETIME_SHARE
        return token.value.reveal(), ends, self.spec.sasl_username, self.extensions


def token_source(spec: ClusterSpec) -> TokenSource:
    """The process-wide source for these credentials: many clients, one token."""
    return _source(json.dumps(dataclasses.asdict(spec), sort_keys=True))


@functools.lru_cache(maxsize=256)
def _source(description: str) -> TokenSource:
    return TokenSource(ClusterSpec(**json.loads(description)))


def fetch_token(spec: ClusterSpec, *, deadline_s: float = DEADLINE_S) -> Token:
    """Request a token once. Raises KafkaUnavailable or KafkaRefused if the token endpoint fails."""
    if MSK_REGION in spec.properties:
        return _msk_token(spec, deadline_s)
    url = spec.properties.get(ENDPOINT, "")
    started = time.time()
    # The answer is a secret too: it holds the token, or may echo what was sent.
    status, body = _post(spec, url, time.monotonic() + deadline_s)
    if status != 200:
        raise KafkaRefused(
            f"The token endpoint of cluster {spec.alias}, {_shown(url)}, responded with "
            f"{status}{_oauth_error(body)}. Check the client id {spec.sasl_username!r}, its "
            f"secret ({spec.sasl_password}) and the scope.",
            code="oauth_refused",
        )
    token = _token_in(body, started)
    if token is None:
        raise KafkaUnavailable(
            f"The token endpoint of cluster {spec.alias}, {_shown(url)}, did not return an "
            "access token. Check that the URL is the token endpoint itself.",
            code="oauth_unusable",
        )
    return token


def _msk_token(spec: ClusterSpec, deadline_s: float) -> Token:
    started = time.time()
    value, expires_at = sign_token(spec, deadline_s=deadline_s)
    return Token(Secret(live_secrets.note(value)), started, expires_at)


def _token_in(body: Secret, started: float) -> Token | None:
    try:
        answer = json.loads(body.reveal())
        value = live_secrets.note(str(answer["access_token"]))
        lifetime = float(answer.get("expires_in") or _lifetime_inside(value, started))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Token(Secret(value), started, started + lifetime)


def _post(spec: ClusterSpec, url: str, deadline: float) -> tuple[int, Secret]:
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    egress.check(host, port)
    cleartext_logins.check_endpoint(url, alias=spec.alias)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection = _connection(spec, parts.scheme, host, port, deadline)
    try:
        _send(connection, path, spec)
        response = connection.getresponse()
        return response.status, _read(response, connection, deadline)
    except (OSError, http.client.HTTPException) as error:
        raise KafkaUnavailable(
            f"The token endpoint of cluster {spec.alias}, {_shown(url)}, did not respond: "
            f"{_reason(error)}.",
            code="oauth_unreachable",
        ) from None
    finally:
        connection.close()


def _send(connection: http.client.HTTPConnection, path: str, spec: ClusterSpec) -> None:
    form = {"grant_type": "client_credentials"}
    if spec.properties.get(SCOPE):
        form["scope"] = spec.properties[SCOPE]
    pair = f"{spec.sasl_username}:{secrets.resolve(spec.sasl_password).reveal()}".encode()
    headers = {
        "Authorization": "Basic " + base64.b64encode(pair).decode("ascii"),
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    connection.request("POST", path, urllib.parse.urlencode(form), headers)


class _Connection(http.client.HTTPConnection):
    """Connects to an address that was checked: a name may lead to a metadata service."""

    def connect(self) -> None:
        ends = time.monotonic() + float(self.timeout or DEADLINE_S)
        targets = resolve_host(self.host, self.port, ends - time.monotonic())
        last: OSError = TimeoutError()
        for _, address in egress.permitted_targets(targets, self.port):
            try:
                left = max(0.1, ends - time.monotonic())
                self.sock = socket.create_connection(address[:2], timeout=left)
            except OSError as error:
                last = error
            else:
                return
        raise last


class _SecureConnection(http.client.HTTPSConnection, _Connection):
    """TLS over it. The certificate must be one of the host's name."""


def _connection(
    spec: ClusterSpec, scheme: str, host: str, port: int, deadline: float
) -> http.client.HTTPConnection:
    left = max(0.1, deadline - time.monotonic())
    if scheme == "http":
        return _Connection(host, port, timeout=left)
    context = ssl.create_default_context()
    if spec.ssl_ca:
        context.load_verify_locations(cadata=certificates_of(spec.ssl_ca))
    return _SecureConnection(host, port, timeout=left, context=context)


def _read(
    response: http.client.HTTPResponse, connection: http.client.HTTPConnection, deadline: float
) -> Secret:
    body = b""
    while len(body) < MAX_BYTES:
        # A socket's time-out counts per read: a server that drips must not outlive the deadline.
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        if connection.sock is not None:
            connection.sock.settimeout(left)
        piece = response.read1(8192)
        if not piece:
            break
        body += piece
    return Secret(body.decode("utf-8", errors="replace"))


def _lifetime_inside(token: str, now: float) -> float:
    """Seconds until the `exp` claim of a JWT; an opaque token gets a short default."""
    parts = token.split(".")
    if len(parts) == 3:
        try:
            claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(parts[1] + "=="))
            return max(1.0, float(claims["exp"]) - now)
        except (ValueError, KeyError, TypeError, binascii.Error):
            pass
    return DEFAULT_LIFETIME_S


def _oauth_error(body: Secret) -> str:
    """The standard error word of RFC 6749, never the body itself: it could contain a credential."""
    try:
        word = json.loads(body.reveal())["error"]
    except (ValueError, KeyError, TypeError):
        return ""
    plain = isinstance(word, str) and len(word) < 60 and word.replace("_", "").isalnum()
    return f" ({word})" if plain else ""


def _shown(url: str) -> str:
    """The URL without user information and query, which may contain secrets."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, TimeoutError):
        return "no response in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return "the connection failed" if not isinstance(error, OSError) else str(error.strerror)
