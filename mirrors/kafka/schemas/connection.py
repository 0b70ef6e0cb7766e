"""HTTP requests to a schema registry: deadlines, all addresses, TLS, credentials.

- A call tries every address of the list, and every IP address of a name, before it fails. It begins
  with the address that responded last.
- UNDERSTUDY_EGRESS_ALLOW applies to each address. A name never leads to a link-local address.
- Credentials go over http:// only where UNDERSTUDY_CLEARTEXT_LOGIN_ALLOW permits it. Redirects are
  not followed.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import ssl
import time
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable
from mirrors.domain.schemas.registry import RegistrySpec, host_and_port
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.dns import resolve_host
from mirrors.kafka.security import cleartext_logins, egress, secrets
from mirrors.kafka.security.connection_settings import tls_context
from mirrors.kafka.security.ip_addresses import is_forbidden

DEADLINE_S: Final = 10.0
_CONNECT_S: Final = 3.0
_MOST_BYTES: Final = 16 << 20
_CONTENT: Final = "application/vnd.schemaregistry.v1+json"


class RegistryUnavailable(KafkaUnavailable):
    """No address of the registry gave a usable answer. A retry may help."""

    code = "registry_unavailable"


class RegistryRefused(KafkaRefused):
    """The registry rejected a request: credentials, permissions or the request itself."""

    code = "registry_refused"


@dataclasses.dataclass(frozen=True)
class Answer:
    status: int
    body: bytes

    def parsed(self) -> Any:
        """The JSON of the body; None if it has none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class RegistryConnection:
    """Requests to one registry. Each takes at most `deadline_s` seconds; threads may share it."""

    def __init__(self, spec: RegistrySpec, *, deadline_s: float = DEADLINE_S) -> None:
        self.spec = spec
        self.urls = list(spec.urls)
        self._deadline_s = deadline_s
        self._headers: dict[str, str] | None = None
        self._context: ssl.SSLContext | None = None

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        """The first answer below 500. A request must have the same effect when it is repeated.

        Raises RegistryUnavailable with the reason of each address, RegistryRefused for credentials
        that must not leave, or SecretUnavailable.
        """
        data = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + self._deadline_s
        reasons: list[str] = []
        for number, url in enumerate(list(self.urls)):
            # Later addresses keep a share of the time.
            left = deadline - time.monotonic()
            share = left / (len(self.urls) - number)
            try:
                answer = self._ask_url(method, url, path, data, time.monotonic() + share)
            except _NoAnswer as failed:
                reasons.append(f"{url}: {failed}")
                continue
            if answer.status >= 500:
                reasons.append(f"{url}: it responded {answer.status}")
                continue
            # One assignment: other threads read the list meanwhile.
            self.urls = [url, *(other for other in self.urls if other != url)]
            return answer
        raise RegistryUnavailable(
            f"The schema registry of {self.spec.alias} does not respond. {'; '.join(reasons)}."
        )

    def _ask_url(
        self, method: str, url: str, path: str, data: bytes | None, deadline: float
    ) -> Answer:
        host, port = host_and_port(url)
        if not egress.is_allowed(host, port):
            raise _NoAnswer(f"this deployment may not connect to it ({egress.VARIABLE})")
        if (exposed := cleartext_logins.registry_refusal(self.spec, url)) is not None:
            raise RegistryRefused(exposed, code="cleartext_login")
        headers = self._request_headers()
        if url.startswith("https:") and self._context is None:
            self._context = _tls(self.spec)
        try:
            found = resolve_host(host, port, max(0.1, deadline - time.monotonic()))
        except OSError as error:
            timed_out = isinstance(error, TimeoutError)
            why = "the name server does not respond" if timed_out else "the name does not resolve"
            raise _NoAnswer(why) from None
        reason = "it has no address that this deployment may connect to"
        for address in dict.fromkeys(str(one[0]) for _, one in found):
            if is_forbidden(address):
                continue
            try:
                return self._ask_address(method, url, address, path, data, headers, deadline)
            except _NoAnswer as failed:
                reason = str(failed)
        raise _NoAnswer(reason)

    def _ask_address(
        self,
        method: str,
        url: str,
        address: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        deadline: float,
    ) -> Answer:
        parts = urlsplit(url)
        left = deadline - time.monotonic()
        if left <= 0:
            raise _NoAnswer("it does not respond in time")
        timeout = urllib3.Timeout(connect=min(left, _CONNECT_S), total=left)
        host = parts.hostname or ""
        try:
            with _pool(parts.scheme, host, address, parts.port, timeout, self._context) as pool:
                answer = pool.urlopen(
                    method,
                    parts.path + path,
                    body=data,
                    headers={**headers, "Host": parts.netloc, "Content-Type": _CONTENT},
                    redirect=False,
                    retries=False,
                    preload_content=False,
                )
                try:
                    return Answer(answer.status, _read(answer, deadline))
                finally:
                    answer.close()
        except urllib3.exceptions.SSLError as error:
            raise _NoAnswer(_tls_reason(error)) from None
        except urllib3.exceptions.NewConnectionError:
            raise _NoAnswer("the connection was refused") from None
        except (urllib3.exceptions.TimeoutError, TimeoutError):
            raise _NoAnswer("it does not respond in time") from None
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise _NoAnswer(f"the connection failed ({type(error).__name__})") from None

    def _request_headers(self) -> dict[str, str]:
        if self._headers is None:
            headers = {"Accept": f"{_CONTENT}, application/json", "User-Agent": "Understudy"}
            if self.spec.token:
                headers["Authorization"] = f"Bearer {secrets.resolve(self.spec.token).reveal()}"
            elif self.spec.password:
                password = secrets.resolve(self.spec.password).reveal()
                pair = f"{self.spec.username}:{password}".encode()
                headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
            self._headers = headers
        return self._headers


class _NoAnswer(Exception):
    """An address gave no answer; a clause says why."""


def _tls(spec: RegistrySpec) -> ssl.SSLContext | None:
    return tls_context(
        ClusterSpec(
            alias=spec.alias,
            bootstrap_servers="",
            security_protocol="SSL",
            ssl_ca=spec.ca,
            ssl_certificate=spec.certificate,
            ssl_key=spec.key,
        )
    )


def _pool(
    scheme: str,
    host: str,
    address: str,
    port: int | None,
    timeout: urllib3.Timeout,
    context: ssl.SSLContext | None,
) -> urllib3.HTTPConnectionPool:
    """To the resolved address, so that a second resolution cannot lead elsewhere."""
    if scheme == "https":
        return urllib3.HTTPSConnectionPool(
            address,
            port or 443,
            timeout=timeout,
            ssl_context=context,
            server_hostname=host,
            assert_hostname=host,
        )
    return urllib3.HTTPConnectionPool(address, port or 80, timeout=timeout)


def _read(answer: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
    body = bytearray()
    while piece := answer.read1(65536):
        body += piece
        # A time-out of the socket counts per read.
        if time.monotonic() > deadline:
            raise TimeoutError
        if len(body) > _MOST_BYTES:
            raise _NoAnswer(f"its answer has more than {_MOST_BYTES >> 20} MiB")
    return bytes(body)


def _tls_reason(error: Exception) -> str:
    for cause in (error, *error.args):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
    return "the TLS handshake failed"
