"""Shows the last version of a page, with its age, while the database does not respond.

- Kept are pages that refresh themselves, for an hour at most, per session: only the database knows
  whether the session is still valid.
- They are in memory that all forked processes share, in fixed slots. A page that hashes to a used
  slot replaces the page there.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import re
import struct
import time
import zlib
from collections.abc import Callable
from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from mirrors.domain import formatting

Respond = Callable[[HttpRequest], HttpResponse]
_SLOTS, _SLOT_BYTES = 256, 128 * 1024
_KEPT_FOR_S = 3600.0
# Owner, time, compressed size, checksum: two processes may write to a slot at the same time.
_HEADER = struct.Struct("<32sdII")
_CACHE = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)
# templates/base.html.
_LIVE = b'<div id="live" data-every='
_BANNER = re.compile(rb'(id="stale-banner" role="alert") hidden>\s*<p>.*?</p>', re.DOTALL)
_BODY = b'<body hx-ext="calm"'


class StalePageMiddleware:
    """Wraps every middleware that uses the database."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        session = request.COOKIES.get(settings.SESSION_COOKIE_NAME)
        if request.method != "GET" or not session or "HX-Request" in request.headers:
            return response
        owner = f"{session}\n{request.get_full_path()}".encode(errors="replace")
        key = hashlib.sha256(owner).digest()
        if response.status_code == 503:
            return _read(key, time.time()) or response
        if _is_cacheable(request, response):
            _write(key, response, time.time())
        return response


def _is_cacheable(request: HttpRequest, response: HttpResponse) -> bool:
    """A page with a message such as "flow created" is shown only once."""
    has_messages = getattr(getattr(request, "_messages", None), "used", False)
    if response.status_code != 200 or response.streaming or has_messages:
        return False
    return _LIVE in response.content


def _slot(key: bytes) -> int:
    return int.from_bytes(key[:4], "big") % _SLOTS * _SLOT_BYTES


def _write(key: bytes, response: HttpResponse, now: float) -> None:
    headers = {name: text for name, text in response.items() if name != "Content-Length"}
    packed = zlib.compress(json.dumps(headers).encode() + b"\n" + response.content, 1)
    if _HEADER.size + len(packed) <= _SLOT_BYTES:
        whole = _HEADER.pack(key, now, len(packed), zlib.crc32(packed)) + packed
        at = _slot(key)
        _CACHE[at : at + len(whole)] = whole


def _read(key: bytes, now: float) -> HttpResponse | None:
    at = _slot(key)
    owner, made_at, size, checksum = _HEADER.unpack_from(_CACHE, at)
    if owner != key or not 0 <= now - made_at < _KEPT_FOR_S:
        return None
    packed = _CACHE[at + _HEADER.size : at + _HEADER.size + size]
    if zlib.crc32(packed) != checksum:
        return None
    headers, _, content = zlib.decompress(packed).partition(b"\n")
    return HttpResponse(_mark_stale(content, made_at, now), headers=json.loads(headers))


def _mark_stale(content: bytes, made_at: float, now: float) -> bytes:
    """The page with its banner, hatched figures, and its age for its script."""
    moment = f"{datetime.fromtimestamp(made_at, UTC):%H:%M:%S} UTC"
    age = formatting.duration(round((now - made_at) * 1000, -3))
    text = (
        f"The database does not respond. This page and its figures are from <time>{moment}</time>, "
        f"{age} ago. Replication continues; changes are not possible. The page keeps retrying."
    )
    content = _BANNER.sub(rb"\1><p>" + text.encode() + b"</p>", content, count=1)
    content = content.replace(_BODY, _BODY + b" data-stale", 1)
    seen = f'<div id="live" data-heard="{made_at * 1000:.0f}" data-every='
    return content.replace(_LIVE, seen.encode(), 1)
