"""The audit log for other systems: JSON lines in the order of the chain, to a file or to syslog.

Syslog is RFC 5424 with the message as JSON, over TCP with octet counting (RFC 6587) or TLS
(RFC 5425). Delivery is at least once: who repeats from a position gets the same entries again.
"""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Iterator
from typing import Any

from django.conf import settings

from mirrors.domain.errors import UnderstudyError
from mirrors.models import Transition
from mirrors.services.audit.chain import facts_of

DEADLINE_S = 10.0
_ADDRESS = re.compile(r"(tcp|tls)://([\w.-]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")
# Facility 13 is the audit log's; 5 notice, 4 warning for what was refused.
_NOTICE, _WARNING = 13 * 8 + 5, 13 * 8 + 4


def entries(*, after: int) -> Iterator[dict[str, Any]]:
    """Sealed entries behind this position, each with its position and digest."""
    rows = Transition.objects.filter(position__gt=after).order_by("position")
    for row in rows.iterator(chunk_size=2000):
        yield {"position": row.position, "digest": row.digest, **facts_of(row)}


def line_of(entry: dict[str, Any]) -> str:
    return json.dumps(entry, sort_keys=True, separators=(",", ":"))


def syslog_frame(entry: dict[str, Any], host: str) -> bytes:
    """One message with its length. The host name has no space, by the grammar of RFC 5424."""
    priority = _NOTICE if entry["result"] == "done" else _WARNING
    name = re.sub(r"[^!-~]", "-", host)[:255] or "-"
    header = f"<{priority}>1 {entry['when']} {name} understudy - audit - "
    message = header.encode() + line_of(entry).encode()
    return f"{len(message)} ".encode() + message


class SyslogServer:
    """A connection to a syslog server. Every call has a deadline."""

    def __init__(self, address: str) -> None:
        found = _ADDRESS.fullmatch(address)
        if found is None or not 0 < int(found[3]) < 65536:
            raise UnderstudyError(
                f"{address[:100]!r} is not the address of a syslog server. Enter tcp://host:port "
                "or tls://host:port.",
                code="syslog_address",
            )
        scheme, host = found[1], found[2].strip("[]")
        self.address = address
        try:
            self._socket: socket.socket = socket.create_connection(
                (host, int(found[3])), DEADLINE_S
            )
            if scheme == "tls":
                context = ssl.create_default_context()
                self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            raise self._failed(error) from None

    def send(self, entry: dict[str, Any]) -> None:
        try:
            self._socket.sendall(syslog_frame(entry, settings.UNDERSTUDY_HOST))
        except OSError as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Wait until the server has taken everything, as far as TCP says so."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(DEADLINE_S)
            self._socket.recv(1)
        except OSError:
            pass
        finally:
            self._socket.close()

    def _failed(self, error: OSError) -> UnderstudyError:
        return UnderstudyError(
            f"The syslog server {self.address} cannot be reached or closed the connection: "
            f"{error.strerror or error}. Check that it runs, its port, and its certificate.",
            code="syslog_unreachable",
        )
