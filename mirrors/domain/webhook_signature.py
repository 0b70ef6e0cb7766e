"""How what we send over HTTP is signed, so that a receiver knows it is ours."""

from __future__ import annotations

import hashlib
import hmac


def signature(body: bytes, secret: str, at: int) -> str:
    """`t=…,v1=…`: HMAC-SHA256 over `<t>.<body>`, so that neither can be replayed or changed."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"
