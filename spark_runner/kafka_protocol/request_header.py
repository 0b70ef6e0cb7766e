"""The header of hand-encoded requests, and the key of a topic."""

from __future__ import annotations

import struct
from typing import Final

TopicKey = bytes
"""A topic in a message: 16 bytes of id, or the name as a compact string."""

CLIENT_ID: Final = "understudy"

PRODUCE: Final = 0
FETCH: Final = 1
_CLIENT_ID: Final = CLIENT_ID.encode()
_HEADER: Final = struct.Struct(f">hhih{len(_CLIENT_ID)}sB")


def request_header(key: int, version: int, correlation: int) -> bytes:
    """The header of a flexible request (KIP-482)."""
    return _HEADER.pack(key, version, correlation, len(_CLIENT_ID), _CLIENT_ID, 0)
