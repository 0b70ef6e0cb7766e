"""A client of Confluent's REST API of schema registries: deadlines, all addresses, sentences.

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
from urllib.parse import quote, urlsplit

import urllib3

from mirrors.domain.errors import KafkaRefused, KafkaUnavailable, UnderstudyError
from mirrors.domain.formatting import on_one_line
from mirrors.domain.schemas.registry import RegistrySpec, host_and_port
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.protocol.dns import resolve_host
from mirrors.kafka.security import cleartext_logins, egress, secrets
from mirrors.kafka.security.connection_settings import tls_context
from mirrors.kafka.security.ip_addresses import is_forbidden

DEADLINE_S: Final = 10.0
_CONNECT_S: Final = 3.0
_MOST_BYTES: Final = 16 << 20
_CONTENT: Final = "application/vnd.schemaregistry.v1+json"
# Apicurio answers with this where it lacks an operation.
_UNSUPPORTED: Final = "not supported"


class UnknownSchema(UnderstudyError):
    """The registry has no schema of that id, subject or version."""

    code = "schema_unknown"


class RegistryUnavailable(KafkaUnavailable):
    """No address of the registry gave a usable answer. A retry may help."""

    code = "registry_unavailable"


class RegistryRefused(KafkaRefused):
    """The registry rejected a request: credentials, permissions or the request itself."""

    code = "registry_refused"


@dataclasses.dataclass(frozen=True)
class SchemaReference:
    """A name in a schema that another schema defines."""

    name: str
    subject: str
    version: int


@dataclasses.dataclass(frozen=True)
class Schema:
    """`kind` is AVRO, JSON or PROTOBUF; `text` is the schema in its own language."""

    kind: str
    text: str
    references: tuple[SchemaReference, ...] = ()


@dataclasses.dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes

    def parsed(self) -> Any:
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class RegistryClient:
    """Calls to one registry. Each takes at most `deadline_s` seconds; threads may share it.

    Raises RegistryUnavailable, RegistryRefused, UnknownSchema or SecretUnavailable.
    """

    def __init__(self, spec: RegistrySpec, *, deadline_s: float = DEADLINE_S) -> None:
        self.spec = spec
        self._deadline_s = deadline_s
        self._urls = list(spec.urls)
        self._headers: dict[str, str] | None = None
        self._context: ssl.SSLContext | None = None

    def subjects(self) -> list[str]:
        return [str(name) for name in self._list("/subjects")]

    def schema(self, schema_id: int) -> Schema:
        return self._schema(f"/schemas/ids/{schema_id}", f"schema id {schema_id}")

    def version(self, subject: str, version: int) -> Schema:
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        return self._schema(path, f"version {version} of subject {subject!r}")

    def places(self, schema_id: int) -> list[tuple[str, int]]:
        """Subject and version of each place where a schema is registered."""
        path = f"/schemas/ids/{schema_id}/versions"
        try:
            return [(str(one["subject"]), int(one["version"])) for one in self._list(path)]
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None

    def id_of(self, subject: str, schema: Schema) -> int:
        """The id of a schema that is registered under the subject. Registers nothing."""
        path = f"/subjects/{quote(subject, safe='')}"
        body = {
            "schema": schema.text,
            "schemaType": schema.kind,
            "references": [dataclasses.asdict(one) for one in schema.references],
        }
        found = self._checked(self._ask(path, body), path, f"such schema in subject {subject!r}")
        try:
            return int(found["id"])
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None

    def compatibility(self) -> str:
        """The global level, such as BACKWARD; empty if the registry does not say."""
        return self._word("/config", "compatibilityLevel")

    def mode(self) -> str:
        """READWRITE, READONLY or IMPORT; empty if the registry has no modes."""
        return self._word("/mode", "mode")

    # -- answers

    def _list(self, path: str) -> list[Any]:
        found = self._get(path)
        if not isinstance(found, list):
            raise self._unusable(path)
        return found

    def _word(self, path: str, name: str) -> str:
        answer = self._ask(path)
        found = answer.parsed()
        if answer.status == 200 and isinstance(found, dict):
            return str(found.get(name) or "")
        if answer.status in (404, 405) or _UNSUPPORTED in _message_of(found):
            return ""
        raise self._refusal(answer, path)

    def _schema(self, path: str, what: str) -> Schema:
        found = self._get(path, what)
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise self._unusable(path)
        try:
            references = tuple(
                SchemaReference(str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in found.get("references") or ()
            )
        except (TypeError, KeyError, ValueError):
            raise self._unusable(path) from None
        return Schema(str(found.get("schemaType") or "AVRO"), found["schema"], references)

    def _get(self, path: str, what: str = "") -> Any:
        return self._checked(self._ask(path), path, what)

    def _checked(self, answer: _Answer, path: str, what: str) -> Any:
        if answer.status == 200:
            return answer.parsed()
        if answer.status == 404 and what:
            raise UnknownSchema(f"The schema registry of {self.spec.alias} has no {what}.")
        raise self._refusal(answer, path)

    def _refusal(self, answer: _Answer, path: str) -> UnderstudyError:
        alias, status = self.spec.alias, answer.status
        if status in (401, 403):
            user = f" for user {self.spec.username!r}" if self.spec.username else ""
            return RegistryRefused(
                f"The schema registry of {alias} responded {status}{user}. Check the credentials "
                "of the registry in the cluster's settings, and what they may read."
            )
        if status == 404:
            return RegistryRefused(
                f"The schema registry of {alias} has no {path} below {self._urls[0]}. Check the "
                "path of the URL, such as /apis/ccompat/v7 of Apicurio."
            )
        reason = on_one_line(_message_of(answer.parsed()))[:200]
        said = f": {reason.rstrip('.')}" if reason else ""
        return RegistryRefused(f"The schema registry of {alias} responded {status}{said}.")

    def _unusable(self, path: str) -> UnderstudyError:
        return RegistryRefused(
            f"The answer of {self._urls[0]}{path} is not one of a schema registry. Check the URL "
            f"of the registry of {self.spec.alias}."
        )

    # -- requests

    def _ask(self, path: str, body: Any = None) -> _Answer:
        """The first answer below 500 to a GET, or to a POST of `body`, which must change nothing.

        Raises RegistryUnavailable with the reason of each address.
        """
        data = None if body is None else json.dumps(body).encode()
        deadline = time.monotonic() + self._deadline_s
        reasons: list[str] = []
        for number, url in enumerate(list(self._urls)):
            # Later addresses keep a share of the time.
            left = deadline - time.monotonic()
            share = left / (len(self._urls) - number)
            try:
                answer = self._ask_url(url, path, data, time.monotonic() + share)
            except _NoAnswer as failed:
                reasons.append(f"{url}: {failed}")
                continue
            if answer.status >= 500:
                reasons.append(f"{url}: it responded {answer.status}")
                continue
            self._urls.remove(url)
            self._urls.insert(0, url)
            return answer
        raise RegistryUnavailable(
            f"The schema registry of {self.spec.alias} does not respond. {'; '.join(reasons)}."
        )

    def _ask_url(self, url: str, path: str, data: bytes | None, deadline: float) -> _Answer:
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
                return self._ask_address(url, address, path, data, headers, deadline)
            except _NoAnswer as failed:
                reason = str(failed)
        raise _NoAnswer(reason)

    def _ask_address(
        self,
        url: str,
        address: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
        deadline: float,
    ) -> _Answer:
        parts = urlsplit(url)
        left = deadline - time.monotonic()
        if left <= 0:
            raise _NoAnswer("it does not respond in time")
        timeout = urllib3.Timeout(connect=min(left, _CONNECT_S), total=left)
        host = parts.hostname or ""
        try:
            with _pool(parts.scheme, host, address, parts.port, timeout, self._context) as pool:
                answer = pool.urlopen(
                    "GET" if data is None else "POST",
                    parts.path + path,
                    body=data,
                    headers={**headers, "Host": parts.netloc, "Content-Type": _CONTENT},
                    redirect=False,
                    retries=False,
                    preload_content=False,
                )
                try:
                    return _Answer(answer.status, _read(answer, deadline))
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


def _message_of(found: Any) -> str:
    return str(found.get("message") or "") if isinstance(found, dict) else ""
