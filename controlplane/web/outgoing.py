"""Responses that clients did not read yet: the first bytes in memory, more in temporary files.

What sends a response never waits for the client, so a slow client holds no thread.

- A response has MOST_IN_MEMORY bytes in memory, the rest in files without a name in TMPDIR.
- The files of one owner have MOST_OF_ONE bytes at most: the response that needs more is closed.
- All files of the process have MOST_ON_DISK bytes at most: then the oldest response of the owner
  with the most is closed. So is the response itself when the disk is full.
- A closed response ends with a reset of the connection, so that no client takes it for complete.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import struct
import tempfile
import threading
from collections import Counter, deque
from typing import Any, BinaryIO

MOST_IN_MEMORY = 8 * 1024 * 1024
MOST_OF_ONE = 256 * 1024 * 1024
MOST_ON_DISK = 512 * 1024 * 1024
AT_ONCE = 64 * 1024
# Bytes that one call reads from files or sends, so that other connections have their turn.
PART = 16 * AT_ONCE
# Bytes of one file. It is deleted when it was read.
SEGMENT = 16 * 1024 * 1024
_RESET = struct.pack("ii", 1, 0)

logger = logging.getLogger(__name__)


class Segment:
    """A temporary file, written at its end and read once from its start."""

    def __init__(self) -> None:
        self._file: BinaryIO = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
        self.size = self.read_bytes = 0

    def write(self, data: memoryview) -> int:
        """Write what has room; returns how many bytes. Raises OSError if the disk is full."""
        count = os.pwrite(self._file.fileno(), data[: SEGMENT - self.size], self.size)
        self.size += count
        return count

    def read(self, count: int) -> bytes:
        found = os.pread(self._file.fileno(), count, self.read_bytes)
        self.read_bytes += len(found)
        return found

    @property
    def is_read(self) -> bool:
        return self.read_bytes == self.size

    def close(self) -> None:
        self._file.close()


class Spool:
    """The temporary files of all responses of one process. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # In the order in which responses got their first file.
        self._files: dict[Outgoing, deque[Segment]] = {}

    def write(self, response: Outgoing, data: bytes | bytearray) -> None:
        """Append bytes of a response. Raises OSError if it was closed, or is closed now."""
        with self._lock:
            self._make_room(response, len(data))
            segments = self._files.setdefault(response, deque())
            rest = memoryview(data)
            try:
                while rest:
                    if not segments or segments[-1].size >= SEGMENT:
                        segments.append(Segment())
                    rest = rest[segments[-1].write(rest) :]
            except OSError as error:
                self._close(response, f"its temporary file cannot be written: {error.strerror}")
                raise

    def read(self, response: Outgoing) -> bytes:
        """The next bytes of a response, PART at most; none if it has no file."""
        with self._lock:
            segments = self._files.get(response)
            if not segments:
                return b""
            found = segments[0].read(PART)
            if segments[0].is_read:
                segments.popleft().close()
            if not segments:
                del self._files[response]
            return found

    def size(self, response: Outgoing | None = None) -> int:
        """Bytes on disk of one response, or of all."""
        with self._lock:
            rows = self._files.values() if response is None else [self._files.get(response, ())]
            return sum(segment.size for row in rows for segment in row)

    def discard(self, response: Outgoing) -> None:
        with self._lock:
            for segment in self._files.pop(response, ()):
                segment.close()

    def _make_room(self, response: Outgoing, size: int) -> None:
        if response.is_closed:
            raise BrokenPipeError(errno.EPIPE, "The response was closed.")
        held = self._held()
        if held[response.owner] + size > MOST_OF_ONE:
            self._close(response, f"its client has {MOST_OF_ONE} bytes unread")
            raise BrokenPipeError(errno.EPIPE, "Too many unread bytes of one client.")
        while held.total() + size > MOST_ON_DISK:
            largest = max(held, key=held.__getitem__)
            oldest = next(each for each in self._files if each.owner == largest)
            self._close(oldest, f"all clients have {MOST_ON_DISK} bytes unread, this one the most")
            held = self._held()

    def _held(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for response, segments in self._files.items():
            found[response.owner] += sum(segment.size for segment in segments)
        return found

    def _close(self, response: Outgoing, why: str) -> None:
        response.is_closed = True
        for segment in self._files.pop(response, ()):
            segment.close()
        logger.warning("Closed a response to %s before its end: %s.", response.owner, why)


class Outgoing:
    """The socket as the thread of a request sees it: what it sends never waits for the client.

    One thread at a time uses it: that of the request, then the event loop.
    `person`: to whom the application answers; empty for nobody. `owner` counts for the limits.
    """

    def __init__(self, connected: socket.socket, spool: Spool, sender: str) -> None:
        self._socket, self._spool = connected, spool
        # In this order: memory, files, memory until it is a part of a file.
        self._head, self._tail = bytearray(), bytearray()
        self._sender, self.person = sender, ""
        self.is_closed = False
        connected.setblocking(False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    @property
    def owner(self) -> str:
        return self.person or self._sender

    @property
    def in_memory(self) -> int:
        return len(self._head) + len(self._tail)

    @property
    def unsent(self) -> int:
        """Bytes that the client did not accept yet."""
        return self.in_memory + self._spool.size(self)

    def sendall(self, data: bytes) -> None:
        if self.is_closed:
            raise BrokenPipeError(errno.EPIPE, "The response was closed.")
        self._tail += data
        self.flush()
        if len(self._head) >= MOST_IN_MEMORY and len(self._tail) >= PART:
            self._spool.write(self, self._tail)
            self._tail.clear()

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        file.seek(offset)
        sent = 0
        while data := file.read(AT_ONCE if count is None else min(AT_ONCE, count - sent)):
            self.sendall(data)
            sent += len(data)
        return sent

    def flush(self) -> None:
        """Send what the client accepts now, PART at most. Raises OSError if it is gone."""
        sent = 0
        while self._fill() and sent < PART:
            try:
                count = self._socket.send(self._head[:AT_ONCE])
            except (BlockingIOError, InterruptedError):
                return
            del self._head[:count]
            sent += count

    def _fill(self) -> bool:
        """Move the next bytes to the head while it has room; whether it has any."""
        while len(self._head) < MOST_IN_MEMORY and (more := self._spool.read(self)):
            self._head += more
        if self.is_closed:
            raise BrokenPipeError(errno.EPIPE, "The response was closed.")
        if self._tail and not self._spool.size(self):
            room = max(0, MOST_IN_MEMORY - len(self._head))
            self._head += self._tail[:room]
            del self._tail[:room]
        return bool(self._head)

    def discard(self) -> None:
        """Forget what was not sent. A closed response resets its connection."""
        self._spool.discard(self)
        self._head.clear()
        self._tail.clear()
        if self.is_closed:
            try:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            except OSError:
                return
