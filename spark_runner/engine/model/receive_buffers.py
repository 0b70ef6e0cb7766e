"""Receive buffers that are made once and used again and again; their number bounds the memory.

A fresh buffer costs the kernel's zeroing of every page (0.11 CPU-s for each GB copied), so a reply
lands in one of a few buffers, its batches are patched there and sent from there, and the buffer is
free again when the last of them is acknowledged.
"""

from __future__ import annotations

import mmap
from typing import Final

from spark_runner.kafka_protocol.crc32c import address_of

_PAGE: Final = 1 << 21


class ReceiveBuffer:
    """One buffer. `users` counts the batches in it that are still to be acknowledged."""

    __slots__ = ("address", "replaces", "users", "view")

    def __init__(
        self, memory: mmap.mmap | memoryview, replaces: ReceiveBuffer | None = None
    ) -> None:
        self.view = memoryview(memory)
        self.address = address_of(self.view)
        self.users = 0
        self.replaces = replaces

    def owns(self, frame: memoryview) -> bool:
        """Whether a frame landed here, or was too large and has memory of its own."""
        return frame.obj is self.view.obj


class ReceiveBuffers:
    """The buffers of one slice, shared by the connections to all source brokers."""

    def __init__(self, *, size: int, count: int) -> None:
        self.size = size
        self._free = [ReceiveBuffer(_pages(size)) for _ in range(count)]
        self._all = list(self._free)

    def take(self) -> ReceiveBuffer | None:
        """A free buffer, or None: then the target is behind and the source has to wait."""
        return self._free.pop() if self._free else None

    def give_back(self, buffer: ReceiveBuffer) -> None:
        self._free.append(buffer.replaces or buffer)

    def release(self, buffer: ReceiveBuffer, users: int = 1) -> None:
        """So many batches of it need it no more."""
        buffer.users -= users
        if not buffer.users:
            self.give_back(buffer)

    def reset(self) -> None:
        """All batches are forgotten; so every buffer is free."""
        for buffer in self._all:
            buffer.users = 0
        self._free = list(self._all)

    @property
    def taken(self) -> int:
        return len(self._all) - len(self._free)


def oversized_buffer(frame: memoryview, buffer: ReceiveBuffer) -> ReceiveBuffer:
    """For a frame larger than the buffers (a first batch comes whole, whatever the limits are).

    The buffer that it was meant for stays taken meanwhile, or such frames would have no bound.
    """
    return ReceiveBuffer(frame, buffer)


def _pages(size: int) -> mmap.mmap:
    # Private: Python's default, shared memory, has no large pages.
    memory = mmap.mmap(
        -1, (size + _PAGE - 1) // _PAGE * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    # Large pages where the kernel has them: fewer misses while 16 MB are copied and summed.
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
