"""Bases of view sets: rows of one flow, runs of one kind, findings that a person decides on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.models import Flow


class RelatedViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """A list of one parent's rows; 404 if there is no such parent.

    `parent_field` is the foreign key of a row; the address has it with `_id`.
    """

    parent: ClassVar[type[Model]]
    parent_field: ClassVar[str]

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        parents = self.parent._default_manager.only("pk")
        parent = get_object_or_404(parents, pk=self.kwargs[f"{self.parent_field}_id"])
        return self.of_parent(rows, parent)

    def of_parent(self, rows: QuerySet[Any], parent: Any) -> QuerySet[Any]:
        return rows.filter(**{self.parent_field: parent})


class FlowRelatedViewSet(RelatedViewSet):
    """A list of one flow's rows."""

    parent = Flow
    parent_field = "flow"


class RunViewSet(mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """Runs of one kind, newest first: a request stores one, its address follows it.

    The service that stores a request sends its message, so no view does.
    """

    write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"
    # Shows one run, also where the list shows less of it.
    run_serializer: ClassVar[type[serializers.BaseSerializer[Any]]]

    def answer(self, run: Model, code: int = status.HTTP_200_OK) -> Response:
        return Response(self.run_serializer(run).data, status=code)

    def created(self, run: Model) -> Response:
        return self.answer(run, status.HTTP_201_CREATED)


class DecisionSerializer(StrictSerializer):
    """`digest` identifies the facts that were shown: if they changed since, it is refused (409)."""

    reason = serializers.CharField(max_length=500)
    digest = serializers.CharField(required=False, max_length=64, default="")


class FindingViewSet(RelatedViewSet):
    """Findings of one flow or one run; operators decide."""

    write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"


class FlowFindingViewSet(mixins.RetrieveModelMixin, FindingViewSet, FlowRelatedViewSet):
    """Findings of one flow, each with its own address."""


class DecisionMixin:
    """For a view set that stores decisions of operators: on one finding, or on those of a run."""

    decision_serializer: ClassVar[type[StrictSerializer]]

    def store_decision(self, subject: Any, given: dict[str, Any], who: str) -> Any:
        """Call the service of this kind; returns the current row."""
        raise NotImplementedError

    def decided(self, request: Request, find: Callable[[], Any]) -> Any:
        """Read the decision, find its subject, store it; returns the current row."""
        given = body_of(request, self.decision_serializer)
        return self.store_decision(find(), given, person(request))


class DecisionViewSet(DecisionMixin, FlowFindingViewSet):
    """Findings that the flow reports, newest first, each with `decide/`."""

    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def decide(self, request: Request, flow_id: str, pk: str) -> Response:
        found = self.decided(request, lambda: get_object_or_404(self.get_queryset(), pk=pk))
        return Response(self.get_serializer(found).data)
