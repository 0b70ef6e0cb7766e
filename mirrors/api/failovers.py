"""REST of failovers: ask for a run, follow its steps, read plan and result, steer and abort it."""

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
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.runbook.steps import BY_NAME, KINDS
from mirrors.models import FailoverRun, FailoverStep, Flow, Role
from mirrors.models.failovers import FailoverKind
from mirrors.models.groups import LONGEST_GROUP
from mirrors.services import failovers, simulation
from mirrors.services.runbook import asking


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
    """A switchover or failover needs `simulation` (a fresh one), `confirm_alias` and `reason`."""

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
    """`command` is what a person types instead, `runbook` what the step looks at and waits for."""

    result = serializers.SerializerMethodField()
    runbook = serializers.SerializerMethodField()

    class Meta:
        model = FailoverStep
        fields = (
            "number",
            "name",
            "does",
            "state",
            "reason",
            "started_at",
            "ended_at",
            "attempt",
            "acting_at",
            "acted_at",
            "due_at",
            "result",
            "command",
            "runbook",
            "confirmed_by",
            "undone_at",
            "undo_reason",
        )

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_result(self, step: FailoverStep) -> Any:
        return step.result

    @extend_schema_field({"type": "object", "additionalProperties": {"type": "string"}})
    def get_runbook(self, step: FailoverStep) -> dict[str, str]:
        known = BY_NAME.get(step.name)
        if known is None:
            return {}
        return {
            "check": known.check,
            "act": known.act,
            "wait": known.wait,
            "compensation": known.undo,
            "limit": f"{known.limit_s} s",
            "tries": str(known.tries),
        }


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
            "simulation",
            "waits_for",
            "approved_by",
            "abort_asked_by",
            "pause_asked_by",
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
    """Simulations, which touch nothing real, and real runs begun from one; the newest first."""

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
        """Ask for a run. A worker takes it at once; poll its address until it has ended.

        `simulation` touches nothing. `switchover` waits until nothing is left to copy, `failover`
        does not wait; both do exactly what a fresh simulation showed.
        """
        asked = FailoverAskSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        run = _begin(asked.validated_data, person(request))
        tasks.run_failover.delay_on_commit(run.pk)
        return Response(FailoverSerializer(run).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: str) -> Response:
        """End it early: a simulation deletes its groups, a real run undoes what it did."""
        run = failovers.abort_run(
            run=self.get_object(), who=person(request), why=_reason_of(request)
        )
        return self._sent(run)

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Agree to it, as a second person."""
        _reason_of(request)
        return self._sent(asking.approve(run=self.get_object(), who=person(request)))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def confirm(self, request: Request, pk: str) -> Response:
        """Say that you did what the step asks for, or that you take it as it is."""
        why = _reason_of(request)
        return self._sent(asking.confirm(run=self.get_object(), who=person(request), why=why))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Hold it before its next step."""
        _reason_of(request)
        return self._sent(asking.pause(run=self.get_object(), who=person(request)))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Go on after a pause, or try again where a step met trouble."""
        _reason_of(request)
        return self._sent(asking.resume(run=self.get_object(), who=person(request)))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def lift(self, request: Request, pk: str) -> Response:
        """Take away the access rules that an ended run left on its source."""
        _reason_of(request)
        run = asking.ask_to_lift(run=self.get_object(), who=person(request))
        tasks.lift_fence.delay_on_commit(run.pk, person(request))
        return Response(FailoverSerializer(run).data)

    def _sent(self, run: FailoverRun) -> Response:
        tasks.run_failover.delay_on_commit(run.pk)
        return Response(FailoverSerializer(run).data)


def _begin(given: dict[str, Any], who: str) -> FailoverRun:
    flow, kind = given["flow"], given["kind"]
    groups, why = given.get("groups", ()), given.get("reason", "")
    if kind == FailoverKind.SIMULATION:
        return simulation.request_simulation(flow=flow, groups=groups, why=why, who=who)
    if kind not in KINDS:
        words = f"A {kind} is not begun here, but from the run that it takes back."
        raise InvalidSettings({"kind": [words]})
    return asking.request_execution(
        flow=flow,
        kind=kind,
        simulation=given.get("simulation"),
        confirm_alias=given.get("confirm_alias", ""),
        why=why,
        who=who,
        groups=groups,
    )


def _reason_of(request: Request) -> str:
    asked = ReasonSerializer(data=request.data or {})
    asked.is_valid(raise_exception=True)
    return str(asked.validated_data.get("reason", ""))
