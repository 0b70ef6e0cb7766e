"""`/metrics` for Prometheus, authenticated by a token in the header."""

from __future__ import annotations

import re
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.exceptions import ValidationError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from mirrors.domain.access.rights import Right
from mirrors.models.access.grants import Shard
from monitoring.prometheus import metrics


class _AnyAnswer(DefaultContentNegotiation):
    """Ignores the `Accept` header of scrapers; errors are JSON."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class Metrics(APIView):
    """Metrics in Prometheus' text format.

    `?partitions=1` adds a series for every partition. `?shard=2/8` has the flows of the second of
    eight shards.
    """

    read_right = Right.SCRAPE
    content_negotiation_class = _AnyAnswer

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        each = request.query_params.get("partitions") == "1"
        shard = _shard(request.query_params.get("shard", ""))
        text = metrics.scrape(now=timezone.now(), partitions=each, shard=shard)
        return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)


def _shard(text: str) -> Shard | None:
    """Raises ValidationError for anything but `NUMBER/OF`."""
    if not text:
        return None
    found = re.fullmatch(r"([1-9]\d{0,3})/([1-9]\d{0,3})", text, re.ASCII)
    if found is None or int(found[1]) > int(found[2]):
        words = f"{text[:40]!r} is no shard. Enter the number and how many there are, such as 2/8."
        raise ValidationError({"shard": [words]})
    return Shard(number=int(found[1]), of=int(found[2]))
