"""One HTTP request to an address that a person typed: bounded, no redirects, filtered addresses.

- The name is resolved once, and the connection goes to one of the checked addresses, so that a
  second resolution cannot lead elsewhere (DNS rebinding).
- UNDERSTUDY_NOTIFY_ALLOW lists what may be reached, in the form of UNDERSTUDY_EGRESS_ALLOW. Without
  it, public addresses only: neither this machine nor private networks.
- Link-local addresses and metadata services of clouds are never allowed.
- The status of the answer is shown. Its body is only in the log of the process: it may be an answer
  of an internal service to a person who may not see it.
- A request may only use secrets with the purpose NOTIFY. Otherwise a user could send a broker's
  password to an address of their own.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import time
import urllib.parse

import urllib3

from mirrors.domain.formatting import on_one_line
from mirrors.kafka.dns import resolve_host
from mirrors.kafka.security import egress
from mirrors.kafka.security.ip_addresses import contained, is_forbidden, is_public
from mirrors.kafka.security.secret_scopes import Purpose
from mirrors.kafka.security.secrets import check_reference, resolve

log = logging.getLogger(__name__)

VARIABLE = "UNDERSTUDY_NOTIFY_ALLOW"
RESOLVE_S = 5.0
_CONNECT_S, _READ_S = 5.0, 10.0
# Of a request to all addresses of a name.
_DEADLINE_S = 60.0
# What the log shows of an answer.
_SHOWN_BYTES = 300
_AGAIN = {408, 425, 429}
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
# Headers that this program or the connection sets.
_RESERVED = {"host", "content-length", "content-type", "transfer-encoding", "connection"}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """`again`: whether a retry may help. `words` never hold the address: it may be secret.

    `unsent`: there was no connection, so the receiver got nothing of the request. `status` is 0
    without an answer. `answer`: the beginning of its body, never to be shown.
    """

    ok: bool
    words: str = ""
    again: bool = False
    wait_s: float | None = None
    unsent: bool = False
    status: int = 0
    answer: bytes = dataclasses.field(default=b"", repr=False)


@dataclasses.dataclass(frozen=True)
class Tls:
    """Files in PEM: trusted authorities instead of the usual ones; certificate and key to show."""

    authorities: str = ""
    certificate: str = ""
    key: str = ""


_USUAL = Tls()
_LATE = Outcome(False, "It did not respond in time.", again=True)


class Refused(Exception):
    """The address is not allowed; the message says why."""


def post(
    url: str,
    body: bytes,
    headers: dict[str, str],
    *,
    deadline_s: float = _DEADLINE_S,
    tls: Tls = _USUAL,
    answer_bytes: int = _SHOWN_BYTES,
) -> Outcome:
    """POST to an address after checking it, without following redirects; never raises.

    A name may resolve to several addresses: after a failed connection the next one is tried.
    """
    until = time.monotonic() + deadline_s
    try:
        parts, addresses = _allowed_addresses(url, min(RESOLVE_S, deadline_s))
    except Refused as refusal:
        return Outcome(False, str(refusal))
    except OSError:
        return Outcome(False, "The host name of the URL does not resolve.", again=True)
    sent = {"Content-Type": "application/json", "User-Agent": "Understudy", **headers}
    sent["Host"] = parts.netloc.rpartition("@")[2]
    outcome = _LATE
    for address in addresses:
        if time.monotonic() >= until:
            break
        call = _Call(address, parts, until, tls, answer_bytes)
        outcome = _post_to(call, body, sent)
        if not outcome.unsent:
            break
    return outcome


@dataclasses.dataclass(frozen=True)
class _Call:
    """`until` is of the monotonic clock."""

    address: str
    parts: urllib.parse.SplitResult
    until: float
    tls: Tls
    answer_bytes: int

    @property
    def timeout(self) -> urllib3.Timeout:
        left_s = max(0.1, self.until - time.monotonic())
        return urllib3.Timeout(connect=min(_CONNECT_S, left_s), read=min(_READ_S, left_s))


def _post_to(call: _Call, body: bytes, headers: dict[str, str]) -> Outcome:
    parts = call.parts
    try:
        with _pool(call) as pool:
            answer = pool.urlopen(
                "POST",
                urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, "")),
                body=body,
                headers=headers,
                redirect=False,
                retries=False,
                preload_content=False,
            )
            found = _read(answer, call)
            answer.release_conn()
            if not 200 <= answer.status < 300:
                text = on_one_line(found[:_SHOWN_BYTES].decode("utf-8", "replace"))
                log.warning("a receiver responded %s: %s", answer.status, text or "(empty)")
    except urllib3.exceptions.SSLError:
        return Outcome(False, "Its certificate is not trusted, or is for another host.", again=True)
    except urllib3.exceptions.NewConnectionError:
        return Outcome(False, "The connection was refused.", again=True, unsent=True)
    except urllib3.exceptions.ConnectTimeoutError:
        return Outcome(False, "It did not respond in time.", again=True, unsent=True)
    except urllib3.exceptions.TimeoutError:
        return _LATE
    except (urllib3.exceptions.HTTPError, OSError) as error:
        return Outcome(False, f"The connection failed ({type(error).__name__}).", again=True)
    return _outcome(answer.status, answer.headers.get("Retry-After"), found)


def _read(answer: urllib3.BaseHTTPResponse, call: _Call) -> bytes:
    """The beginning of the body: what arrives before the deadline. The status is known by then."""
    found = b""
    while len(found) < call.answer_bytes and time.monotonic() < call.until:
        part = answer.read1(call.answer_bytes - len(found))
        if not part:
            break
        found += part
    return found


def _outcome(status: int, wait: str | None, answer: bytes) -> Outcome:
    if 200 <= status < 300:
        return Outcome(True, status=status, answer=answer)
    words = f"It responded {status}."
    wait_s = float(wait) if wait and wait.isascii() and wait.isdecimal() else None
    again = status >= 500 or status in _AGAIN
    return Outcome(False, words, again=again, wait_s=wait_s, status=status, answer=answer)


def _pool(call: _Call) -> urllib3.HTTPConnectionPool:
    host = call.parts.hostname or ""
    port = call.parts.port or (443 if call.parts.scheme == "https" else 80)
    if call.parts.scheme == "https":
        return urllib3.HTTPSConnectionPool(
            call.address,
            port,
            timeout=call.timeout,
            server_hostname=host,
            assert_hostname=host,
            ca_certs=call.tls.authorities or None,
            cert_file=call.tls.certificate or None,
            key_file=call.tls.key or None,
        )
    return urllib3.HTTPConnectionPool(call.address, port, timeout=call.timeout)


def _allowed_addresses(url: str, resolve_s: float) -> tuple[urllib.parse.SplitResult, list[str]]:
    """The parts of the address and the allowed IP addresses, at least one."""
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise Refused("The URL cannot be parsed.") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Refused("The URL must begin with http:// or https:// and have a host.")
    found = resolve_host(parts.hostname, port, resolve_s)
    addresses, refusals = [], []
    for address in dict.fromkeys(str(one[0]) for _, one in found):
        try:
            _check_address(parts.hostname, address, port)
        except Refused as refusal:
            refusals.append(refusal)
        else:
            addresses.append(address)
    if not addresses:
        raise refusals[0]
    return parts, addresses


def _check_address(host: str, address: str, port: int) -> None:
    if is_forbidden(address):
        raise Refused(
            "The address is link-local or a cloud's metadata service, so it is never called."
        )
    rules = {egress.VARIABLE: os.environ.get(VARIABLE, "")}
    if rules[egress.VARIABLE]:
        names = (host, *map(str, contained(address)))
        if not any(egress.is_allowed(name, port, environ=rules) for name in names):
            raise Refused(f"No rule in {VARIABLE} of this deployment allows the address.")
    elif not is_public(address):
        raise Refused(
            f"The address is local or private. If it is intended, list it in {VARIABLE} of the "
            f"service that sends, such as {address}:{port}."
        )


def is_reference(text: str) -> bool:
    return text.startswith(("env:", "file:"))


def reveal(reference: str) -> str:
    return resolve(reference, purpose=Purpose.NOTIFY).reveal()


def refusal(reference: str) -> str | None:
    """Why a request may not use a reference; None when it may."""
    return check_reference(reference, purpose=Purpose.NOTIFY)


def check_headers(headers: dict[str, str]) -> str | None:
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or name.lower() in _RESERVED:
            return f"{name[:64]!r} is not allowed as a header of such a request."
        if not value.isprintable() or not value.isascii() or len(value) > 1000:
            return f"The value of {name} contains characters that a header must not contain."
        if is_reference(value) and (sentence := refusal(value)):
            return sentence
    return None
