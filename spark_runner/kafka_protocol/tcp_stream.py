"""A blocking TCP connection that receives into the caller's memory and has deadlines.

The socket stays in blocking mode with SO_RCVTIMEO and SO_SNDTIMEO. Python's time-outs make a socket
non-blocking, and then MSG_WAITALL, which fills a 16 MB buffer in one call, has no effect.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

from mirrors.kafka.protocol.connection_errors import connection_lost, timed_out

Buffer = bytes | bytearray | memoryview

IOV_MAX: Final = 1024
# A response is preceded by its length, and small responses arrive together: one call reads all.
_AHEAD: Final = 4096
# Wake up once for this many bytes of a long response. Waking up for each piece took a tenth more
# CPU time. A larger value would be a large part of the bytes in flight between distant clusters,
# and the sender would have to wait. Below the least value, bytes are read as they arrive.
_MAX_WAKEUP_BYTES: Final = 1 << 19
_MIN_WAKEUP_BYTES: Final = 1 << 16
_SLACK_S: Final = 1.0
_TIMEVAL: Final = struct.Struct("@ll")


class PlainStream:
    """A plain TCP stream. `TlsStream` has the same methods."""

    def __init__(
        self, connected: socket.socket, where: str, *, most_together: int = _MAX_WAKEUP_BYTES
    ) -> None:
        self.socket = connected
        self._most_together = most_together
        self.where = where
        # Bytes that arrived with the last small response are `_ahead[_begin:_end]`.
        self._ahead = memoryview(bytearray(_AHEAD))
        self._begin = self._end = 0
        self._armed = {socket.SO_RCVTIMEO: 0.0, socket.SO_SNDTIMEO: 0.0}
        # The kernel's low-water mark: it wakes us for this many bytes.
        self._together = 1

    def fileno(self) -> int:
        return self.socket.fileno()

    def pending(self) -> bool:
        """Whether bytes have left the socket already, so that poll() would not report them."""
        return self._begin < self._end

    def receive_into(self, view: memoryview, deadline: float) -> None:
        """Fill the view to its end, or raise KafkaUnavailable."""
        at, size = 0, len(view)
        while at < size:
            if self._begin < self._end:
                got = min(self._end - self._begin, size - at)
                view[at : at + got] = self._ahead[self._begin : self._begin + got]
                self._begin += got
                at += got
            elif size - at < _AHEAD:
                self._end, self._begin = self.receive_some(self._ahead, deadline), 0
            else:
                at += self.receive_some(view[at:] if at else view, deadline, size - at)

    def receive_some(self, view: memoryview, deadline: float, surely: int = 0) -> int:
        """Receive what is there, or wait for `surely` bytes, which are known to arrive.

        Many bytes are waited for together, up to a rest of the same size that follows.
        """
        together = min(self._most_together, surely // 2)
        if together < _MIN_WAKEUP_BYTES:
            together = 1
        elif len(view) > surely - together:
            view = view[: surely - together]
        flags = socket.MSG_WAITALL if surely else 0
        self._arm(socket.SO_RCVTIMEO, deadline)
        try:
            if together != self._together:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, together)
                self._together = together
            got = self.socket.recv_into(view, 0, flags)
        except BlockingIOError:
            raise timed_out(self.where) from None
        except OSError as error:
            raise connection_lost(self.where, error) from None
        if got == 0:
            raise connection_lost(self.where, None)
        return got

    def send(self, parts: Sequence[Buffer], deadline: float) -> None:
        """Send all parts, in as few system calls as possible."""
        for first in range(0, len(parts), IOV_MAX):
            self._send(parts[first : first + IOV_MAX], deadline)

    def _send(self, parts: Sequence[Buffer], deadline: float) -> None:
        left = sum(map(len, parts))
        while True:
            self._arm(socket.SO_SNDTIMEO, deadline)
            try:
                sent = self.socket.sendmsg(parts)
            except BlockingIOError:
                raise timed_out(self.where) from None
            except OSError as error:
                raise connection_lost(self.where, error) from None
            left -= sent
            if not left:
                return
            parts = _rest(parts, sent)

    def _arm(self, option: int, deadline: float) -> None:
        """Set the kernel's timeout to the remaining time, unless it is about the same already."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise timed_out(self.where)
        armed = self._armed[option]
        if not left / 2 <= armed <= left + _SLACK_S:
            # Zero would mean no timeout.
            span = _TIMEVAL.pack(*divmod(max(1, int(left * 1e6)), 1_000_000))
            try:
                self.socket.setsockopt(socket.SOL_SOCKET, option, span)
            except OSError as error:
                # Closed by this process, because the cluster no longer listed the broker.
                raise connection_lost(self.where, error) from None
            self._armed[option] = left

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.close()


def _rest(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    """The parts that sendmsg did not send."""
    rest: list[Buffer] = []
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
        else:
            rest.append(memoryview(part)[sent:] if sent else part)
            sent = 0
    return rest


@dataclasses.dataclass(frozen=True)
class Buffers:
    """The socket's buffer sizes in bytes; 0 leaves them to the operating system."""

    send: int = 0
    receive: int = 0

    @property
    def together(self) -> int:
        """The number of bytes to wake up for: not most of the receive buffer."""
        return min(_MAX_WAKEUP_BYTES, self.receive // 4) if self.receive else _MAX_WAKEUP_BYTES

    def apply(self, to: socket.socket) -> None:
        # Before connecting, because TCP negotiates the window then.
        for option, size in ((socket.SO_SNDBUF, self.send), (socket.SO_RCVBUF, self.receive)):
            if size:
                to.setsockopt(socket.SOL_SOCKET, option, size)
