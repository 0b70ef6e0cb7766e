"""REST of a flow's plan: read the changes needed on the target, and apply exactly these."""

from __future__ import annotations

from typing import Any

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.base import StrictSerializer, person
from mirrors.domain.access.rights import Right
from mirrors.domain.states.sync import PLAN
from mirrors.models import Flow, FlowPlan
from mirrors.services.topics import acl_previews, plans

NOT_YET = "Not checked yet. POST here to let a worker check."


class ChangeSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    name = serializers.CharField()
    before = serializers.CharField(allow_null=True)
    after = serializers.CharField(allow_null=True)
    reason = serializers.CharField()


class PlanSerializer(serializers.ModelSerializer[FlowPlan]):
    """`digest` identifies these changes; `as_of` is null before the first check.

    `acls_wait` says why ACLs are not synchronized yet; empty if they are, or if that is off.
    """

    state = serializers.ChoiceField(choices=[("unknown", "Not checked yet"), *PLAN.choices])
    changes: Any = ChangeSerializer(many=True)
    left_out = serializers.ListField(child=serializers.CharField())
    acls_wait = serializers.SerializerMethodField()

    class Meta:
        model = FlowPlan
        fields = ("digest", "state", "reason", "since", "as_of", "changes", "left_out", "acls_wait")

    def get_acls_wait(self, plan: FlowPlan) -> str:
        return acl_previews.why_flow_waits(plan.flow)


class DigestSerializer(StrictSerializer):
    digest = serializers.CharField(max_length=64)


class PlanViewSet(viewsets.GenericViewSet[Any]):
    """What a flow would change on its target, as of the last check."""

    queryset = FlowPlan.objects.all()
    serializer_class = PlanSerializer
    pagination_class = None
    filter_backends = ()
    write_right = Right.OPERATE

    @extend_schema(responses=forced_singular_serializer(PlanSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        row = FlowPlan.objects.filter(flow=self._flow()).first()
        if row is None:
            row = FlowPlan(flow=self._flow(), state="unknown", reason=NOT_YET, since=timezone.now())
        return Response(PlanSerializer(row).data)

    @extend_schema(request=None, responses={202: PlanSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Let a worker check now."""
        row = plans.request_plan(flow=self._flow(), now=timezone.now())
        tasks.look_at_plan.delay_on_commit(row.flow_id)
        return Response(PlanSerializer(row).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=DigestSerializer, responses={202: PlanSerializer})
    @action(detail=False, methods=["post"])
    def apply(self, request: Request, flow_id: str) -> Response:
        """Apply the plan with this digest. Refused (409, `stale`) if the plan has changed."""
        asked = DigestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row = plans.request_apply(
            flow=self._flow(),
            digest=asked.validated_data["digest"],
            who=person(request),
            now=timezone.now(),
        )
        tasks.apply_plan.delay_on_commit(row.flow_id)
        return Response(PlanSerializer(row).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(request=DigestSerializer, responses=PlanSerializer)
    @action(detail=False, methods=["post"])
    def follow(self, request: Request, flow_id: str) -> Response:
        """Confirm the ACLs of the plan with this digest: their sync task may begin.

        With `sync.topic.acls.enabled` the task waits for this. Refused (409, `stale`) if the plan
        has changed, or if its ACLs could not be read.
        """
        asked = DigestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        acl_previews.approve_acls(
            flow=self._flow(),
            digest=asked.validated_data["digest"],
            who=person(request),
            now=timezone.now(),
        )
        return self.list(request, flow_id)

    def _flow(self) -> Flow:
        flows = Flow.objects.select_related("source", "target")
        return get_object_or_404(flows, pk=self.kwargs["flow_id"])
