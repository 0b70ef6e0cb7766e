"""The task's end of its connection to the driver: it receives orders and sends live figures.

One TCP connection per task, with TLS (`tls`), JSON lines. The driver sends a nonce. The task
answers with its key and an HMAC of the nonce under the token from its work, so the token is never
sent. A task that loses the connection commits and stops, because nobody could stop it any more.
Figures never block: if the driver does not read, the task continues to copy. The driver's end is in
`driver_server`.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Literal

from spark_runner.ipc.messages import Figures, SliceWork
from spark_runner.ipc.tls import connect

Order = Literal["stop", "replan", "handover", "lost_control"]

SILENCE_S = 35.0
CONNECT_DEADLINE_S = 10.0
_REPORT_S = 0.5
_IDLE_REPORT_S = 5.0


class Channel:
    """The task's end. Safe for one lane and the reader thread."""

    def __init__(self, work: SliceWork, on_report: Callable[[Figures], None] | None = None) -> None:
        self._on_report = on_report
        host, _, port = work.control_address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=CONNECT_DEADLINE_S)
        # The same connection in non-blocking mode, and the bytes that it has not accepted yet.
        self._nonblocking = self._socket.dup()
        self._nonblocking.setblocking(False)
        # Encrypted, so that its order is fixed.
        self._unsent = bytearray()
        self._order: Order | None = None
        self._changed = threading.Condition()
        self._turn = False
        self._shares: list[int | None] = []
        self._reported_at = 0.0
        # The committed totals of the last report. The first change of an epoch is sent at once.
        self._progress_reported_at = 0.0
        self._reported: tuple[int, int] = (0, 0)
        try:
            self._tls = connect(work.control_certificate)
            self._socket.sendall(self._tls.start())
            lines = self._lines()
            nonce = json.loads(next(lines))["nonce"]
            self._send({"hello": slice_key(work), "mac": token_mac(work.control_token, nonce)})
        except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
            self.close()
            raise ConnectionError(f"no driver of this runner is there ({error})") from None
        self._socket.settimeout(SILENCE_S)
        threading.Thread(target=self._read, args=(lines,), name="control", daemon=True).start()

    def order(self) -> Order | None:
        """The driver's order. Once given, it does not change."""
        return self._order

    def share(self, first: int | None) -> int | None:
        """The slice's share of the flow's bandwidth; `first` until the driver has sent one."""
        return self._shares[0] if self._shares else first

    def wait_for_turn(self, deadline_s: float) -> bool:
        """Report readiness to fence, then block until the predecessor has ended.

        False on an order, or after the deadline.
        """
        with contextlib.suppress(OSError):
            self._send({"ready": True})
        with self._changed:
            self._changed.wait_for(lambda: self._turn or self._order is not None, deadline_s)
            return self._turn and self._order is None

    def release(self) -> None:
        """Report that this epoch has committed its last batch, so that the successor may start.

        Spark delivers the result later. Does not block: if the report is lost, the result gives the
        turn.
        """
        self._unsent += self._tls.encrypt(encode_line({"released": True}))
        self._flush()

    def wait_for_order(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._order is not None, seconds)

    def due(self, *, moved: bool = True) -> bool:
        """Whether to report now: soon if something moved, otherwise rarely.

        False while earlier reports are unsent. The next report includes later changes.
        """
        if self._unsent and not self._flush():
            return False
        now = time.monotonic()
        return (
            now - self._progress_reported_at >= _REPORT_S
            if moved
            else now - self._reported_at >= _IDLE_REPORT_S
        )

    def report(self, figures: Figures) -> None:
        self._reported_at = time.monotonic()
        if self._on_report is not None:
            self._on_report(figures)
        if (figures.records, len(figures.errors)) != self._reported:
            self._reported = figures.records, len(figures.errors)
            self._progress_reported_at = self._reported_at
        self._unsent += self._tls.encrypt(encode_line({"figures": figures.to_json()}))
        self._flush()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._nonblocking.close()
        self._socket.close()

    def _lines(self) -> Iterator[bytes]:
        """The driver's lines, until it closes the connection. Raises OSError."""
        rest = b""
        while data := self._socket.recv(1 << 16):
            in_handshake = not self._tls.is_ready
            said, answer = self._tls.receive(data)
            if answer and not in_handshake:
                # It would have to be sent between the lines of the lane. The driver never asks.
                raise ConnectionError("the driver asks for a renegotiation")
            self._socket.sendall(answer)
            *lines, rest = (rest + said).split(b"\n")
            yield from lines

    def _read(self, lines: Iterator[bytes]) -> None:
        # Every exit from this loop means that nobody can stop this task, so it stops itself.
        with contextlib.suppress(OSError, ValueError):
            for line in lines:
                message = json.loads(line)
                if "order" in message:
                    self._set_order(message["order"])
                elif "share" in message:
                    self._shares = [message["share"]]
                elif "turn" in message:
                    with self._changed:
                        self._turn = True
                        self._changed.notify_all()
        self._set_order("lost_control")

    def _set_order(self, order: Order) -> None:
        with self._changed:
            self._order = self._order or order
            self._changed.notify_all()

    def _send(self, message: dict[str, Any]) -> None:
        """Block until the driver has read the message. Only before anything is copied."""
        self._unsent += self._tls.encrypt(encode_line(message))
        data, self._unsent = self._unsent, bytearray()
        self._socket.sendall(data)

    def _flush(self) -> bool:
        """Whether everything was sent. Does not block."""
        try:
            while self._unsent:
                del self._unsent[: self._nonblocking.send(self._unsent)]
        except BlockingIOError:
            return False
        except OSError:
            self._unsent.clear()
            self._set_order("lost_control")
        return True


def encode_line(message: dict[str, Any]) -> bytes:
    """A message in the format of the connection."""
    return json.dumps(message).encode() + b"\n"


def slice_key(work: SliceWork) -> str:
    """The key in the hello of a task."""
    return f"{work.job}/{work.flow}/{work.index}/{work.epoch}"


def token_mac(token: str, nonce: str) -> str:
    """Proof that the receiver of the nonce has the token."""
    return hmac.new(token.encode(), nonce.encode(), hashlib.sha256).hexdigest()
