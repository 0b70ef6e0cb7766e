"""REST of a flow's positions: preview a move, then apply exactly that preview."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from mirrors.api.base import StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.models import Flow, PositionChange
from mirrors.services.topics import positions


class PositionsSerializer(StrictSerializer):
    topics = serializers.CharField(
        max_length=50_000, help_text="Names or regular expressions, with commas between."
    )
    partition = serializers.IntegerField(
        required=False, allow_null=True, default=None, min_value=0, max_value=2**31 - 1
    )
    to = serializers.CharField(
        max_length=64, help_text="earliest, latest, an offset, or a time such as 2026-05-01T08:00Z."
    )


class ApplySerializer(StrictSerializer):
    digest = serializers.CharField(max_length=64, help_text="Of the preview that you read.")
    reason = serializers.CharField(max_length=500)


class MoveSerializer(StrictSerializer):
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    position = serializers.IntegerField(help_text="The next source offset to copy.")
    to = serializers.IntegerField(allow_null=True)
    first = serializers.IntegerField(allow_null=True, help_text="Log start on the source.")
    end = serializers.IntegerField(allow_null=True, help_text="Last stable offset of the source.")
    effect = serializers.ChoiceField(choices=["copied_again", "skipped", "unchanged", "refused"])
    offsets = serializers.IntegerField(help_text="Copied again or skipped; markers count too.")
    refusal = serializers.CharField(allow_blank=True)


class PositionChangeSerializer(serializers.ModelSerializer[PositionChange]):
    state = serializers.ChoiceField(
        choices=["requested", "previewed", "applying", "applied", "failed"]
    )
    rows = MoveSerializer(many=True)

    class Meta:
        model = PositionChange
        fields = (
            *("id", "state", "topics", "partition", "to", "digest", "rows", "copied_again"),
            *("skipped", "refused", "error", "requested_by", "requested_at", "previewed_at"),
            *("applied_by", "why", "applied_at", "failed_at"),
        )
        read_only_fields = fields


class PositionViewSet(ViewSet):
    """Positions of a stopped flow: the last preview or change."""

    write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"

    @extend_schema(responses=forced_singular_serializer(PositionChangeSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        """The last preview or change. 404 before the first one."""
        row = get_object_or_404(PositionChange.objects.filter(flow=_flow(flow_id))[:1])
        return Response(PositionChangeSerializer(row).data)

    @extend_schema(request=PositionsSerializer, responses={202: PositionChangeSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Let a worker compute what a move copies again or skips. It changes nothing."""
        given = body_of(request, PositionsSerializer)
        row = positions.request_preview(flow=_flow(flow_id), **given, who=person(request))
        return _accepted(row)

    @extend_schema(request=ApplySerializer, responses={202: PositionChangeSerializer})
    @action(detail=True, methods=["post"])
    def apply(self, request: Request, flow_id: str, pk: str) -> Response:
        """Write the previewed positions. The digest proves which preview was read."""
        row = get_object_or_404(PositionChange, pk=pk, flow=_flow(flow_id))
        given: dict[str, Any] = body_of(request, ApplySerializer)
        row = positions.request_apply(
            change=row, digest=given["digest"], why=given["reason"], who=person(request)
        )
        return _accepted(row)


def _flow(flow_id: str) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=flow_id)


def _accepted(row: PositionChange) -> Response:
    return Response(PositionChangeSerializer(row).data, status=status.HTTP_202_ACCEPTED)
