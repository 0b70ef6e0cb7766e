"""CRC32C over memory that is not copied for it.

google-crc32c's Python functions accept only `bytes`, so a range of a receive buffer would have to
be copied first (a third more time for 40 KB). Its wheel contains the C library, which is called by
address if found. Otherwise the copying functions are used.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import google_crc32c


def _library() -> ctypes._NamedFuncPointer | None:
    folder = Path(google_crc32c.__file__).parent.with_name("google_crc32c.libs")
    for path in folder.glob("libcrc32c*.so*"):
        try:
            found = ctypes.CDLL(str(path)).crc32c_value
        except (OSError, AttributeError):
            continue
        found.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        found.restype = ctypes.c_uint32
        return found
    return None


def _copying(address: int, size: int) -> int:
    return int(google_crc32c.value(ctypes.string_at(address, size)))


_found = _library()

crc32c_at: Callable[[int, int], int] = _found or _copying
"""The checksum of `size` bytes at an address. The caller keeps that memory alive."""

crc32c_address = ctypes.cast(_found, ctypes.c_void_p).value or 0 if _found else 0
"""The address of the C function, 0 if unknown."""


def crc32c(data: bytes) -> int:
    return int(google_crc32c.value(data))


def address_of(writable: bytearray | memoryview) -> int:
    """The address of a writable buffer. It does not change while a view of the buffer exists."""
    return ctypes.addressof(ctypes.c_char.from_buffer(writable))
