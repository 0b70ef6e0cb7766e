"""A client of the queue's Redis, with a timeout."""

from __future__ import annotations

import redis
from django.conf import settings

_DEADLINE_S = 3.0


def redis_client(deadline_s: float = _DEADLINE_S) -> redis.Redis:
    url = settings.REDIS_URL.replace("redis+socket://", "unix://")
    return redis.Redis.from_url(url, socket_timeout=deadline_s, socket_connect_timeout=deadline_s)
