"""Receive buffers, allocated once and reused. Their number bounds the memory of a slice.

With a fresh buffer the kernel zeroes every page (0.11 CPU-s for each GB copied). So a reply lands
in one of a few buffers. Its batches are stamped there and sent from there. The buffer is free when
the target has acknowledged the last of them.
"""

from __future__ import annotations

import mmap
from typing import Final

from spark_runner.native.crc32c import address_of

_PAGE: Final = 1 << 21


class ReceiveBuffer:
    """One buffer. `users` counts its batches that are not acknowledged yet."""

    __slots__ = ("address", "replaces", "users", "view")

    def __init__(
        self, memory: mmap.mmap | memoryview, replaces: ReceiveBuffer | None = None
    ) -> None:
        self.view = memoryview(memory)
        self.address = address_of(self.view)
        self.users = 0
        self.replaces = replaces

    def owns(self, frame: memoryview) -> bool:
        """Whether the frame lies in this buffer. A frame that was too large has its own memory."""
        return frame.obj is self.view.obj


class ReceiveBuffers:
    """The buffers of one slice, shared by the connections to all source brokers."""

    def __init__(self, *, size: int, count: int) -> None:
        self.size = size
        self._free = [ReceiveBuffer(_pages(size)) for _ in range(count)]
        self._all = list(self._free)

    def take(self) -> ReceiveBuffer | None:
        """A free buffer, or None when the target is behind and the source has to wait."""
        return self._free.pop() if self._free else None

    def give_back(self, buffer: ReceiveBuffer) -> None:
        self._free.append(buffer.replaces or buffer)

    def release(self, buffer: ReceiveBuffer, users: int = 1) -> None:
        """This number of its batches no longer needs the buffer."""
        buffer.users -= users
        if not buffer.users:
            self.give_back(buffer)

    def reset(self) -> None:
        """Free all buffers. The caller has dropped all batches."""
        for buffer in self._all:
            buffer.users = 0
        self._free = list(self._all)

    @property
    def has_free(self) -> bool:
        return bool(self._free)

    @property
    def taken(self) -> int:
        return len(self._all) - len(self._free)


def oversized_buffer(frame: memoryview, buffer: ReceiveBuffer) -> ReceiveBuffer:
    """A buffer for a frame that is larger than the others: brokers always return a first batch
    whole.

    The buffer it replaces stays taken, so that large frames do not raise the memory bound.
    """
    return ReceiveBuffer(frame, buffer)


def _pages(size: int) -> mmap.mmap:
    # MAP_PRIVATE: Python's default is shared memory, which has no huge pages.
    memory = mmap.mmap(
        -1, (size + _PAGE - 1) // _PAGE * _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    # Huge pages, where available, cause fewer TLB misses while 16 MB are copied and checksummed.
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory
