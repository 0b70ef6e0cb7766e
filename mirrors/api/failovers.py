"""REST of failovers: ask for a simulation, follow its steps, read its plan and result, abort it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.shapes import ReasonSerializer, StrictSerializer, person
from mirrors.models import FailoverRun, FailoverStep, Flow, Role
from mirrors.models.failovers import FailoverKind
from mirrors.models.groups import LONGEST_GROUP
from mirrors.services import failovers, simulation


@extend_schema_field({"oneOf": [{"type": "integer"}, {"type": "string"}]})
class FlowField(serializers.Field[Flow, Any, Any, Any]):
    """A flow by its id, or by its name `primary->backup`; answered as its id."""

    def to_internal_value(self, data: Any) -> Flow:
        flows = Flow.objects.select_related("source", "target")
        if isinstance(data, int) and not isinstance(data, bool) and 0 < data < 2**63:
            found = flows.filter(pk=data).first()
        elif isinstance(data, str) and data.isascii() and data.isdecimal() and len(data) < 19:
            found = flows.filter(pk=int(data)).first()
        elif isinstance(data, str):
            source, _, target = data.partition("->")
            found = flows.filter(source__alias=source, target__alias=target).first()
        else:
            raise serializers.ValidationError("It is a flow's id or its name.")
        if found is None:
            raise serializers.ValidationError(f"There is no flow {str(data)[:200]}.")
        return found

    def to_representation(self, value: Flow) -> int:
        return value.pk


class FailoverAskSerializer(StrictSerializer):
    """`simulation` and `confirm_alias` are for the kinds that change something."""

    flow = FlowField()
    kind = serializers.ChoiceField(choices=FailoverKind.choices)
    groups = serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_GROUP),
        required=False,
        max_length=failovers.MOST_GROUPS,
        help_text="Consumer groups; without any, all that the flow looks after.",
    )
    simulation = serializers.IntegerField(required=False, allow_null=True)
    confirm_alias = serializers.CharField(required=False, allow_blank=True, max_length=100)
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class FailoverStepSerializer(serializers.ModelSerializer[FailoverStep]):
    class Meta:
        model = FailoverStep
        fields = ("number", "name", "does", "state", "reason", "started_at", "ended_at")


class FailoverBriefSerializer(serializers.ModelSerializer[FailoverRun]):
    """One run in the list; its own address has plan, steps and result."""

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    asked_reason = serializers.CharField(source="why", read_only=True)

    class Meta:
        model = FailoverRun
        fields: tuple[str, ...] = (
            "id",
            "flow",
            "flow_name",
            "kind",
            "state",
            "reason",
            "since",
            "groups",
            "asked_reason",
            "requested_by",
            "progress",
            "created_at",
            "started_at",
            "ended_at",
        )


class FailoverSerializer(FailoverBriefSerializer):
    """`plan` is there once both sides were asked, `result` when the run has ended well enough."""

    steps = FailoverStepSerializer(many=True, read_only=True)
    plan = serializers.SerializerMethodField()
    result = serializers.SerializerMethodField()

    class Meta(FailoverBriefSerializer.Meta):
        fields = (*FailoverBriefSerializer.Meta.fields, "plan", "steps", "result")

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_plan(self, run: FailoverRun) -> Any:
        return run.plan

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_result(self, run: FailoverRun) -> Any:
        return run.result


class FailoverViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[FailoverRun]
):
    """Simulations of failovers: nothing real is touched; the newest first."""

    queryset = FailoverRun.objects.all()
    serializer_class = FailoverSerializer
    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("flow__source__alias", "flow__target__alias", "reason", "requested_by")
    ordering_fields = ("id", "kind", "state", "created_at", "ended_at")
    filter_fields: ClassVar = {
        "kind": "kind",
        "state": "state",
        "source": "flow__source__alias",
        "target": "flow__target__alias",
    }

    def get_queryset(self) -> QuerySet[FailoverRun]:
        rows = FailoverRun.objects.select_related("flow__source", "flow__target").order_by("-id")
        if self.action == "list":
            return rows.defer("plan", "result")
        return rows.prefetch_related("steps")

    def get_serializer_class(self) -> Any:
        return FailoverBriefSerializer if self.action == "list" else FailoverSerializer

    @extend_schema(request=FailoverAskSerializer, responses={201: FailoverSerializer})
    def create(self, request: Request) -> Response:
        """Ask for a run. A worker takes it at once; poll its address until it has ended."""
        asked = FailoverAskSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        run = failovers.request_run(
            flow=given["flow"],
            kind=given["kind"],
            groups=given.get("groups", ()),
            why=given.get("reason", ""),
            who=person(request),
            steps=simulation.STEPS,
        )
        tasks.run_failover.delay_on_commit(run.pk)
        return Response(FailoverSerializer(run).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: str) -> Response:
        """End it early; its throw-away groups are deleted."""
        asked = ReasonSerializer(data=request.data or {})
        asked.is_valid(raise_exception=True)
        why = asked.validated_data.get("reason", "")
        run = failovers.abort_run(run=self.get_object(), who=person(request), why=why)
        return Response(FailoverSerializer(run).data)
