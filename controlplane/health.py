"""Liveness and readiness: this process and its dependencies."""

from __future__ import annotations

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.database.timeouts import bounded
from controlplane.redis_connection import redis_client
from mirrors.services.process_liveness import Readiness, readiness


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """200 if this process responds; checks no dependency."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """503 with the names of failed checks. Reasons only, no addresses or versions."""
    checks = [_redis()]
    try:
        with bounded(settings.UNDERSTUDY_READ_SECONDS):
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            checks = [Readiness(name="database", ok=True, reason=""), *checks, *readiness()]
    except DatabaseError:
        checks.insert(0, Readiness(name="database", ok=False, reason="It does not respond."))
    ready = all(check.ok for check in checks)
    body = {
        "status": "ready" if ready else "not ready",
        "checks": [{"name": one.name, "ok": one.ok, "reason": one.reason} for one in checks],
    }
    return JsonResponse(body, status=200 if ready else 503)


def _redis() -> Readiness:
    client = redis_client(deadline_s=1.0)
    try:
        client.ping()
    except redis.RedisError:
        return Readiness(name="redis", ok=False, reason="It does not respond.")
    finally:
        client.close()
    return Readiness(name="redis", ok=True, reason="")
