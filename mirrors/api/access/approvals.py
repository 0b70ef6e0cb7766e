"""REST of requests to drop a flow's rule that a second person approves its failovers."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import ReasonSerializer, StrictModelSerializer, person, reason_of
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.domain.access.rights import Right
from mirrors.lists.approvals import WAIVERS
from mirrors.models import Flow, RuleWaiver
from mirrors.services.access import approvals


class WaiverSerializer(StrictModelSerializer):
    class Meta:
        model = RuleWaiver
        fields = WAIVERS.fields
        extra_kwargs = WAIVERS.extra_kwargs
        read_only_fields = fields


class WaiverViewSet(FlowRelatedViewSet):
    """Requests of admins to drop the flow's rule, newest first. A second person approves."""

    queryset = RuleWaiver.objects.order_by("-id")
    serializer_class = WaiverSerializer
    write_right = Right.ADMINISTER
    action_rights: ClassVar = {"approve": Right.APPROVE, "reject": Right.APPROVE}
    lookup_value_regex = r"\d{1,18}"
    ordering_fields = ("id",)

    @extend_schema(request=ReasonSerializer, responses={201: WaiverSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Request it, with a reason."""
        rows = Flow.objects.select_related("source", "target")
        flow, why = get_object_or_404(rows, pk=flow_id), reason_of(request)
        made = approvals.request_waiver(flow=flow, who=person(request), why=why)
        return Response(self.get_serializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=WaiverSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, flow_id: str, pk: str) -> Response:
        """Approve it, which removes the setting from the flow."""
        return self._decide(request, approved=True)

    @extend_schema(request=None, responses=WaiverSerializer)
    @action(detail=True, methods=["post"])
    def reject(self, request: Request, flow_id: str, pk: str) -> Response:
        return self._decide(request, approved=False)

    def _decide(self, request: Request, *, approved: bool) -> Response:
        row: Any = self.get_object()
        done = approvals.decide_waiver(waiver=row, approved=approved, who=person(request))
        return Response(self.get_serializer(done).data)
