"""REST of readiness and objectives: flows/{id}/readiness/ and flows/{id}/objectives/."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictSerializer, person
from mirrors.domain.access.rights import Right
from mirrors.domain.drills.objectives import Objectives
from mirrors.models import Flow, FlowObjectives
from mirrors.models.drills.readiness import proof_of, readiness_of, with_readiness
from mirrors.models.flow_queries import flows_with_lag
from mirrors.services.drills.objectives import objectives_of, set_objectives

_OBJECTIVES = ("rpo_seconds", "rpo_records", "rto_seconds")


class ProofSerializer(serializers.Serializer[Any]):
    """`state` is one of proven, stale, failed, never; `at` is when a drill last passed."""

    state = serializers.CharField()
    at = serializers.DateTimeField(allow_null=True)
    sentence = serializers.CharField()


class TermSerializer(serializers.Serializer[Any]):
    """A term with `lost` points has a `sentence` and a `fix`: the part of the flow to fix."""

    name = serializers.CharField()
    title = serializers.CharField()
    most = serializers.IntegerField()
    points = serializers.IntegerField()
    lost = serializers.IntegerField()
    sentence = serializers.CharField()
    fix = serializers.CharField(allow_null=True)


class ReadinessSerializer(serializers.Serializer[Any]):
    score = serializers.IntegerField()
    proven = ProofSerializer()
    terms = TermSerializer(many=True)


class ReadinessViewSet(viewsets.GenericViewSet[Any]):
    """Readiness of the standby, 0 to 100, by term; the formula is in docs/readiness.md."""

    queryset = Flow.objects.all()
    serializer_class = ReadinessSerializer
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=forced_singular_serializer(ReadinessSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        now = timezone.now()
        flow = get_object_or_404(with_readiness(flows_with_lag(), now), pk=flow_id)
        found = readiness_of([flow], now)[flow.pk]
        body = {"score": found.score, "proven": proof_of(flow, now), "terms": found.terms}
        return Response(ReadinessSerializer(body).data)


class ObjectivesSerializer(StrictSerializer):
    """Null means no objective."""

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    rpo_seconds = serializers.IntegerField(min_value=0, allow_null=True, required=False)
    rpo_records = serializers.IntegerField(min_value=0, allow_null=True, required=False)
    rto_seconds = serializers.IntegerField(min_value=1, allow_null=True, required=False)
    set_by = serializers.CharField(read_only=True)
    set_at = serializers.DateTimeField(read_only=True, allow_null=True)


class ObjectivesViewSet(viewsets.GenericViewSet[FlowObjectives]):
    """The flow's objectives. A drill that misses one fails."""

    queryset = FlowObjectives.objects.all()
    serializer_class = ObjectivesSerializer
    write_right = Right.EDIT
    pagination_class = None
    filter_backends = ()

    def get_queryset(self) -> QuerySet[FlowObjectives]:
        return FlowObjectives.objects.order_by("flow")

    @extend_schema(responses=ObjectivesSerializer)
    def retrieve(self, request: Request, flow_id: str) -> Response:
        return self._answer(objectives_of(flow=self._flow(flow_id)))

    @extend_schema(request=ObjectivesSerializer, responses=ObjectivesSerializer)
    def partial_update(self, request: Request, flow_id: str) -> Response:
        """Change the given objectives; null removes one."""
        flow = self._flow(flow_id)
        asked = ObjectivesSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        known = objectives_of(flow=flow)
        given = {name: asked.validated_data.get(name, getattr(known, name)) for name in _OBJECTIVES}
        row = set_objectives(flow=flow, wanted=Objectives(**given), who=person(request))
        return self._answer(row)

    def destroy(self, request: Request, flow_id: str) -> Response:
        """Remove all three objectives."""
        set_objectives(flow=self._flow(flow_id), wanted=Objectives(), who=person(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _flow(self, flow_id: str) -> Flow:
        return get_object_or_404(Flow.objects.select_related("source", "target"), pk=flow_id)

    def _answer(self, row: FlowObjectives) -> Response:
        body = {
            "flow_id": row.flow_id,
            **{name: getattr(row, name) for name in _OBJECTIVES},
            "set_by": row.set_by,
            "set_at": row.set_at if row.pk else None,
        }
        return Response(ObjectivesSerializer(body).data)
