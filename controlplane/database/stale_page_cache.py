"""While the database does not answer, a page is shown as it last was, and says of when that is.

Kept are pages that keep themselves fresh, an hour at most, for the session that saw them: whose
session it is, and whether it still is one, only the database could tell. They lie in memory that
all processes forked from this one share, a slot for each; a page that falls into a slot that is
taken replaces what was there.
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
# Whose page it is, when it was made, how long it is packed, its checksum: two processes may write
# into one slot at once.
_HEAD = struct.Struct("<32sdII")
_SHELF = mmap.mmap(-1, _SLOTS * _SLOT_BYTES)
# templates/base.html.
_LIVE = b'<div id="live" data-every='
_BANNER = re.compile(rb'(id="stale-banner" role="alert") hidden>\s*<p>.*?</p>', re.DOTALL)
_BODY = b'<body hx-ext="calm"'


class KeptPagesMiddleware:
    """Outside of whatever asks the database."""

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
            return _kept(key, time.time()) or response
        if _is_worth_it(request, response):
            _keep(key, response, time.time())
        return response


def _is_worth_it(request: HttpRequest, response: HttpResponse) -> bool:
    """What was told once, such as "flow created", is not told again."""
    told = getattr(getattr(request, "_messages", None), "used", False)
    if response.status_code != 200 or response.streaming or told:
        return False
    return _LIVE in response.content


def _slot(key: bytes) -> int:
    return int.from_bytes(key[:4], "big") % _SLOTS * _SLOT_BYTES


def _keep(key: bytes, response: HttpResponse, now: float) -> None:
    headers = {name: text for name, text in response.items() if name != "Content-Length"}
    packed = zlib.compress(json.dumps(headers).encode() + b"\n" + response.content, 1)
    if _HEAD.size + len(packed) <= _SLOT_BYTES:
        whole = _HEAD.pack(key, now, len(packed), zlib.crc32(packed)) + packed
        at = _slot(key)
        _SHELF[at : at + len(whole)] = whole


def _kept(key: bytes, now: float) -> HttpResponse | None:
    at = _slot(key)
    owner, made_at, size, checksum = _HEAD.unpack_from(_SHELF, at)
    if owner != key or not 0 <= now - made_at < _KEPT_FOR_S:
        return None
    packed = _SHELF[at + _HEAD.size : at + _HEAD.size + size]
    if zlib.crc32(packed) != checksum:
        return None
    headers, _, content = zlib.decompress(packed).partition(b"\n")
    return HttpResponse(_dated(content, made_at, now), headers=json.loads(headers))


def _dated(content: bytes, made_at: float, now: float) -> bytes:
    """The page with its banner shown, its figures hatched, and its age known to its script."""
    moment = f"{datetime.fromtimestamp(made_at, UTC):%H:%M:%S} UTC"
    age = formatting.duration(round((now - made_at) * 1000, -3))
    words = (
        f"The database does not answer. This page is from <time>{moment}</time>, {age} ago, and so "
        "are its figures. Records keep flowing; nothing can be changed. It keeps trying."
    )
    content = _BANNER.sub(rb"\1><p>" + words.encode() + b"</p>", content, count=1)
    content = content.replace(_BODY, _BODY + b" data-stale", 1)
    heard = f'<div id="live" data-heard="{made_at * 1000:.0f}" data-every='
    return content.replace(_LIVE, heard.encode(), 1)
