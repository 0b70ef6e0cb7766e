"""Bases of view sets: rows of one flow, runs of one kind, findings that a person decides on."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictSerializer, body_of, person
from mirrors.models import Flow, Role


class FlowRelatedViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """A list of one flow's rows; 404 if there is no such flow."""

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        flow = get_object_or_404(Flow.objects.only("pk"), pk=self.kwargs["flow_id"])
        return self.of_flow(rows, flow)

    def of_flow(self, rows: QuerySet[Any], flow: Flow) -> QuerySet[Any]:
        return rows.filter(flow=flow)


class RunViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """Runs of one kind, newest first: a request stores one, its address follows it.

    The service that stores a request sends its message, so no view does.
    """

    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    # Shows one run, also where the list shows less of it.
    run_serializer: ClassVar[type[serializers.BaseSerializer[Any]]]

    def answer(self, run: Model, code: int = status.HTTP_200_OK) -> Response:
        return Response(self.run_serializer(run).data, status=code)

    def created(self, run: Model) -> Response:
        return self.answer(run, status.HTTP_201_CREATED)


class DecisionSerializer(StrictSerializer):
    """`digest` identifies the facts that the person saw; without it, any facts."""

    reason = serializers.CharField(max_length=500)
    digest = serializers.CharField(required=False, max_length=64, default="")


class FindingViewSet(mixins.RetrieveModelMixin, FlowRelatedViewSet):
    """Findings of one flow; operators decide."""

    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"


class DecisionViewSet(FindingViewSet):
    """Findings that the flow reports, newest first, each with `decide/`."""

    decision_serializer: ClassVar[type[DecisionSerializer]]

    def store_decision(self, finding: Any, given: dict[str, Any], who: str) -> Any:
        """Call the service of this kind; returns the current row."""
        raise NotImplementedError

    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def decide(self, request: Request, flow_id: str, pk: str) -> Response:
        given = body_of(request, self.decision_serializer)
        finding = get_object_or_404(self.get_queryset(), pk=pk)
        decided = self.store_decision(finding, given, person(request))
        return Response(self.get_serializer(decided).data)
