"""The signature of outgoing HTTP requests, by which a receiver can verify the sender."""

from __future__ import annotations

import hashlib
import hmac


def signature(body: bytes, secret: str, at: int) -> str:
    """Return `t=…,v1=…`: HMAC-SHA256 over `<t>.<body>`, which prevents replay and change."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
