"""`/metrics` for Prometheus, authenticated by a token in the header."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.views import APIView

from mirrors.domain.access.rights import Right
from monitoring.prometheus import metrics


class _AnyAnswer(DefaultContentNegotiation):
    """Ignores the `Accept` header of scrapers; errors are JSON."""

    def select_renderer(
        self, request: Request, renderers: Any, format_suffix: str | None = None
    ) -> Any:
        return renderers[0], renderers[0].media_type


class Metrics(APIView):
    """Metrics in Prometheus' text format; `?partitions=1` adds a series for every partition."""

    read_right = Right.SCRAPE
    content_negotiation_class = _AnyAnswer

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        each = request.query_params.get("partitions") == "1"
        text = metrics.scrape(now=timezone.now(), partitions=each)
        return HttpResponse(text, content_type=CONTENT_TYPE_LATEST)
