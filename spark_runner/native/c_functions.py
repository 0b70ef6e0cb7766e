"""The engine's C functions, if `make compiled` has built them. Otherwise the Python code runs.

They do the same as the Python code, several times faster (docs/adr/0010). Functions for checksums
and compression are called by address in the libraries of Python packages. The importing package has
called `loader.use()` before.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import ModuleType
from typing import Any

import lz4.frame._frame

from spark_runner.native.crc32c import crc32c_address

try:
    from spark_runner.native import c_module
except ImportError:
    c_module = None  # type: ignore[assignment]


def pass_addresses(module: ModuleType) -> None:
    """Pass the addresses of library functions to the C module."""
    library = ctypes.CDLL(lz4.frame._frame.__file__)
    found = [crc32c_address]
    for name in ("LZ4_decompress_safe", "LZ4_compress_fast"):
        function = getattr(library, name, 0)
        found.append(ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0)
    module.set_addresses(*found)


if c_module is not None:
    pass_addresses(c_module)

Headers = Callable[[memoryview, int, int, type[Any], int], tuple[list[Any], int]]
headers: Headers | None = getattr(c_module, "headers", None)
stamp: Callable[[memoryview, int, int, int, int, int], None] | None = getattr(
    c_module, "stamp", None
)
produce_request: Callable[[bytes, list[Any]], list[Any]] | None = getattr(
    c_module, "produce_request", None
)
produce_results: Callable[[memoryview, int, int, bytes, type[Any]], list[Any] | None] | None = (
    getattr(c_module, "produce_results", None)
)
merge: Callable[[list[int], list[int], int, int], bytearray | None] | None = getattr(
    c_module, "merge", None
)
