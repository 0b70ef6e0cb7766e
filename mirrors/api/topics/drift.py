"""REST of drift: manual changes on the target, and decisions on them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.base import StrictModelSerializer
from mirrors.api.topics.plans import PlanSerializer
from mirrors.api.viewsets import DecisionSerializer, DecisionViewSet
from mirrors.domain.topics.drift import CHOICES
from mirrors.lists.topics import DRIFT
from mirrors.models import Drift, Flow
from mirrors.services.topics import drift, plans


class DriftSerializer(StrictModelSerializer):
    """`expected` is what the flow set, `found` what the target has, `wanted` what the flow wants.

    Null is the target's default, or nothing. `digest` identifies the values shown.
    """

    digest = serializers.SerializerMethodField()

    class Meta:
        model = Drift
        fields = DRIFT.fields
        extra_kwargs = DRIFT.extra_kwargs
        read_only_fields = fields

    def get_digest(self, finding: Drift) -> str:
        return drift.digest_of(finding)


class DriftDecisionSerializer(DecisionSerializer):
    choice = serializers.ChoiceField(choices=CHOICES)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


@extend_schema_view(
    decide=extend_schema(
        request=DriftDecisionSerializer,
        responses=DriftSerializer,
        description="`accept` keeps this value, `ignore` any value until it expires, `fix` "
        "restores it.\n\nRefused (409) if it is resolved, or `digest` is not that of the current "
        "values.",
    )
)
class DriftViewSet(DecisionViewSet):
    """Drift, newest first; a resolved finding has `closed_at`."""

    queryset = Drift.objects.order_by("-id")
    serializer_class = DriftSerializer
    decision_serializer = DriftDecisionSerializer
    search_fields = DRIFT.search
    ordering_fields = ("id", "kind", "closed_at")
    ordering_aliases: ClassVar = DRIFT.orderings
    filter_fields: ClassVar = {"state": "state", "kind": "kind", "name": "name"}

    @extend_schema(request=None, responses={202: PlanSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Let a worker read both clusters now; the response is the plan to be refreshed."""
        flows = Flow.objects.select_related("source", "target")
        row = plans.request_plan(flow=get_object_or_404(flows, pk=flow_id), now=timezone.now())
        tasks.look_at_plan.delay_on_commit(row.flow_id)
        return Response(PlanSerializer(row).data, status=status.HTTP_202_ACCEPTED)

    def store_decision(self, finding: Drift, given: dict[str, Any], who: str) -> Drift:
        return drift.decide(
            finding=finding,
            choice=given["choice"],
            who=who,
            why=given["reason"],
            until=given["expires_at"],
            shown=given["digest"],
            now=timezone.now(),
        )
