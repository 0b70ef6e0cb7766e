"""REST of a takeover: let a worker check that MirrorMaker 2 is quiet, then start the flow."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from mirrors.api.base import StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.models import DutyRun, Flow
from mirrors.services.migration import takeover


class TakeoverSerializer(StrictSerializer):
    seconds = serializers.IntegerField(
        default=takeover.SECONDS, min_value=1, max_value=takeover.LONGEST_S
    )
    start = serializers.BooleanField(
        default=False, help_text="Start the flow when MirrorMaker 2 is stopped."
    )


class TakeoverAnswer(StrictSerializer):
    """`quiet` is null while a worker checks, and if it is unknown."""

    id = serializers.IntegerField(allow_null=True)
    quiet = serializers.BooleanField(allow_null=True)
    started = serializers.BooleanField()
    reasons = serializers.ListField(child=serializers.CharField())
    counts = serializers.DictField(child=serializers.IntegerField())
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class TakeoverViewSet(ViewSet):
    """Whether MirrorMaker 2 is quiet on this flow's target, as of the last check."""

    write_right = Right.OPERATE

    @extend_schema(responses=forced_singular_serializer(TakeoverAnswer))
    def list(self, request: Request, flow_id: str) -> Response:
        return Response(_answer(takeover.last_check(flow=_flow(flow_id))))

    @extend_schema(request=TakeoverSerializer, responses={202: TakeoverAnswer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Check now in a worker; with `start`, start the flow if MirrorMaker 2 no longer writes."""
        given = body_of(request, TakeoverSerializer)
        run = takeover.request_check(
            flow=_flow(flow_id),
            seconds=given["seconds"],
            start=given["start"],
            who=person(request),
            now=timezone.now(),
        )
        return Response(_answer(run), status=status.HTTP_202_ACCEPTED)


def _flow(flow_id: str) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=flow_id)


def _answer(run: DutyRun | None) -> dict[str, Any]:
    if run is None:
        reasons = ["Not checked yet. POST here to let a worker check."]
        return {"id": None, "quiet": None, "started": False, "reasons": reasons, "counts": {},
                "started_at": None, "ended_at": None}  # fmt: skip
    told = run.ended_at is not None and not run.error
    return {
        "id": run.pk,
        "quiet": bool(run.counts.get("quiet")) if told else None,
        "started": bool(run.counts.get("started")),
        "reasons": [run.error] if run.error else list(run.reasons),
        "counts": run.counts,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
    }
