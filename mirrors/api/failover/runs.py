"""REST of failovers: request a run, follow its steps, read plan and result, control it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from mirrors.api.base import ReasonSerializer, body_of, person, reason_of
from mirrors.api.failover.serializers import (
    ApplicationFailbackSerializer,
    ConfirmSerializer,
    FailoverAskSerializer,
    FailoverBriefSerializer,
    FailoverSerializer,
)
from mirrors.api.viewsets import RunViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.failover.runbook.steps import KINDS
from mirrors.domain.failover.scope import scope_of
from mirrors.lists.failover import FAILOVERS
from mirrors.models import FailoverRun
from mirrors.models.access.grants import demand_here
from mirrors.models.failover import FailoverKind
from mirrors.services.failback import switchover
from mirrors.services.failback.application import create_reverse_flow, failback_of
from mirrors.services.failover import lifecycle
from mirrors.services.failover.runbook import commands
from mirrors.services.failover.script import script_of
from mirrors.services.failover.simulation import simulator


class FailoverViewSet(RunViewSet):
    """Simulations, which change nothing real, and the runs begun from them; newest first."""

    queryset = FailoverRun.objects.all()
    serializer_class = run_serializer = FailoverSerializer
    search_fields = ("flow__source__alias", "flow__target__alias", "reason", "requested_by")
    ordering_fields = ("ended_at",)
    ordering_aliases: ClassVar = FAILOVERS.orderings
    filter_fields: ClassVar = {
        "kind": "kind",
        "state": "state",
        "verification": "verification",
        "source": "flow__source__alias",
        "target": "flow__target__alias",
    }

    def get_queryset(self) -> QuerySet[FailoverRun]:
        rows = FailoverRun.objects.select_related("flow__source", "flow__target").order_by("-id")
        if self.action == "list":
            return rows.defer("plan", "result", "counted_rows")
        return rows.prefetch_related("steps", "certificates")

    def get_serializer_class(self) -> Any:
        return FailoverBriefSerializer if self.action == "list" else FailoverSerializer

    action_rights: ClassVar = {"approve": Right.APPROVE}

    @extend_schema(request=FailoverAskSerializer, responses={201: FailoverSerializer})
    def create(self, request: Request) -> Response:
        """Request a run. A worker starts it; poll its address until it has ended.

        - `simulation` changes nothing real.
        - `switchover` waits until everything is replicated; `failover` does not wait. Both do
          exactly what a fresh simulation showed.
        - `scope` limits a simulation to one application of the flow; its run fails over only that,
          and the flow continues with its other topics.
        - `failback`, with the flow that failed over, moves the clients back while a failback
          (`failbacks/`) runs. The response is the simulation of the reverse flow; the
          switchover follows it.
        """
        return self.created(_begin(body_of(request, FailoverAskSerializer), person(request)))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: str) -> Response:
        """End it early: a simulation deletes its groups, a real run undoes its steps."""
        run, who, why = self.get_object(), person(request), reason_of(request)
        return self.answer(lifecycle.abort_run(run=run, who=who, why=why))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: str) -> Response:
        """Approve it, as a second person."""
        reason_of(request)
        return self.answer(commands.approve(run=self.get_object(), who=person(request)))

    @extend_schema(request=ConfirmSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def confirm(self, request: Request, pk: str) -> Response:
        """Confirm that the step's task is done, or accept its result."""
        given = body_of(request, ConfirmSerializer)
        why, step = given.get("reason", ""), given.get("step", "")
        run, who = self.get_object(), person(request)
        return self.answer(commands.confirm(run=run, who=who, why=why, step=step))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Pause it before its next step."""
        reason_of(request)
        return self.answer(commands.pause(run=self.get_object(), who=person(request)))

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Resume after a pause, or retry a failed step."""
        reason_of(request)
        return self.answer(commands.resume(run=self.get_object(), who=person(request)))

    @extend_schema(responses={200: ApplicationFailbackSerializer, 409: None})
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def failback(self, request: Request, pk: str) -> Response:
        """The next step of the failback of one application; 409 for a run of a whole flow."""
        return Response(ApplicationFailbackSerializer(failback_of(self.get_object())).data)

    @extend_schema(request=None, responses={201: ApplicationFailbackSerializer})
    @failback.mapping.post
    def create_reverse(self, request: Request, pk: str) -> Response:
        """Create and start the reverse flow for the application's topics; 409 if there is one.

        It has the settings of the forward flow. With the same topic names on both sides it begins
        at the divergence points, and `skip.replicated=true` is set on both flows.
        """
        run = self.get_object()
        create_reverse_flow(run=run, who=person(request))
        answer = ApplicationFailbackSerializer(failback_of(run)).data
        return Response(answer, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=FailoverSerializer)
    @action(detail=True, methods=["post"])
    def lift(self, request: Request, pk: str) -> Response:
        """Remove the ACLs that an ended run left on its source."""
        why = reason_of(request)
        run = self.get_object()
        return self.answer(commands.request_fence_removal(run=run, who=person(request), why=why))


def _begin(given: dict[str, Any], who: str) -> FailoverRun:
    flow, kind = given["flow"], given["kind"]
    groups, why = given.get("groups", ()), given.get("reason", "")
    scope = scope_of(given.get("scope"))
    if kind == FailoverKind.SIMULATION:
        return simulator.request_simulation(flow=flow, groups=groups, why=why, who=who, scope=scope)
    if kind not in KINDS:
        demand_here(flow.opposite_subject)
        return switchover.request_switch(
            run=switchover.running_failback(flow),
            confirm_alias=given.get("confirm_alias", ""),
            who=who,
            why=why,
        )
    return commands.request_execution(
        flow=flow,
        kind=kind,
        simulation=given.get("simulation"),
        confirm_alias=given.get("confirm_alias", ""),
        why=why,
        who=who,
        groups=groups,
        scope=scope,
    )


SHELL = "text/x-shellscript; charset=utf-8"


class FailoverScriptViewSet(ViewSet):
    """A plan as a shell script that needs only Kafka's tools."""

    @extend_schema(
        operation_id="failovers_script_retrieve",
        parameters=[OpenApiParameter("run_id", int, OpenApiParameter.PATH)],
        responses={(200, "text/x-shellscript"): OpenApiTypes.STR},
    )
    def list(self, request: Request, run_id: str) -> HttpResponse:
        """Refused (409) while the run has no plan."""
        rows = FailoverRun.objects.select_related("flow__source", "flow__target")
        name, text = script_of(run=get_object_or_404(rows, pk=run_id))
        answer = HttpResponse(text, content_type=SHELL)
        answer["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer
