"""One way to write a document down, so that a digest or a signature of it means just one thing."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(document: Any) -> bytes:
    """JSON in ASCII, keys in order, no space: equal documents are equal bytes."""
    text = json.dumps(
        document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False
    )
    return text.encode("ascii")


def digest_of(document: Any) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()
