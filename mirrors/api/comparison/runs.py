"""REST of comparisons: request one, follow it, read its partitions and findings, abort it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import (
    FlowField,
    ReasonSerializer,
    StrictSerializer,
    body_of,
    person,
    reason_of,
)
from mirrors.api.viewsets import RelatedViewSet, RunViewSet
from mirrors.lists.comparison import COMPARISONS, FINDINGS, PARTITIONS
from mirrors.models import Comparison, ComparisonFinding, ComparisonPart
from mirrors.models.comparison import Engine
from mirrors.services.comparison import lifecycle


class ComparisonAskSerializer(StrictSerializer):
    """What to compare, and how much to read at most."""

    flow = FlowField()
    topics = serializers.ListField(
        child=serializers.CharField(max_length=249),
        required=False,
        max_length=lifecycle.MOST_TOPICS,
        help_text="Source topics; by default all that the flow replicates.",
    )
    content = serializers.BooleanField(
        required=False, default=True, help_text="Whether to compare records too."
    )
    records = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**63 - 1,
        default=lifecycle.RECORDS,
        help_text="Number of the last offsets of each partition; null for all.",
    )
    seconds = serializers.IntegerField(
        required=False, min_value=1, max_value=lifecycle.MOST_SECONDS, default=lifecycle.SECONDS
    )
    megabytes = serializers.IntegerField(
        required=False, min_value=1, max_value=lifecycle.MOST_MEGABYTES, default=lifecycle.MEGABYTES
    )
    megabytes_per_second = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=lifecycle.MOST_MEGABYTES,
        default=lifecycle.MEGABYTES_PER_SECOND,
        help_text="Limit for both clusters together while the runner reads; null for none.",
    )
    engine = serializers.ChoiceField(
        required=False,
        allow_blank=True,
        choices=[Engine.WORKER.value],
        default="",
        help_text="`worker`: read with a client that shares no code with the engine. Otherwise the "
        "flow's runner reads in its Spark, if it runs.",
    )
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class ComparisonSerializer(serializers.ModelSerializer[Comparison]):
    """One comparison. `summary` counts each aspect; `verdict` is set when it has ended.

    - `verdict` is `same`, `partly` (all that was read is the same) or `differs`.
    - `engine`: `spark` while the flow's runner reads, else `worker`, with the reason.
    """

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    asked_reason = serializers.CharField(source="why", read_only=True)
    summary = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField()

    class Meta:
        model = Comparison
        fields = COMPARISONS.fields
        extra_kwargs = COMPARISONS.extra_kwargs

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_summary(self, run: Comparison) -> Any:
        return run.summary

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_progress(self, run: Comparison) -> Any:
        return run.progress


class ComparisonPartSerializer(serializers.ModelSerializer[ComparisonPart]):
    """Offsets from `source_first` to `next`, exclusive, were compared."""

    class Meta:
        model = ComparisonPart
        fields = PARTITIONS.fields
        extra_kwargs = PARTITIONS.extra_kwargs


class ComparisonFindingSerializer(serializers.ModelSerializer[ComparisonFinding]):
    class Meta:
        model = ComparisonFinding
        fields = FINDINGS.fields
        extra_kwargs = FINDINGS.extra_kwargs


class ComparisonViewSet(RunViewSet):
    """Comparisons of a flow's two clusters, newest first. They change nothing."""

    queryset = Comparison.objects.all()
    serializer_class = run_serializer = ComparisonSerializer
    search_fields = ("flow__source__alias", "flow__target__alias", "reason", "requested_by")
    ordering_fields = ("ended_at",)
    ordering_aliases: ClassVar = COMPARISONS.orderings
    filter_fields: ClassVar = {
        "state": "state",
        "verdict": "verdict",
        "source": "flow__source__alias",
        "target": "flow__target__alias",
    }

    def get_queryset(self) -> QuerySet[Comparison]:
        return Comparison.objects.select_related("flow__source", "flow__target").order_by("-id")

    @extend_schema(request=ComparisonAskSerializer, responses={201: ComparisonSerializer})
    def create(self, request: Request) -> Response:
        """Request a comparison. A worker runs it; poll its address until it has ended."""
        given = body_of(request, ComparisonAskSerializer)
        why = given.pop("reason", "")
        return self.created(lifecycle.request_comparison(who=person(request), why=why, **given))

    @extend_schema(request=ReasonSerializer, responses=ComparisonSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: str) -> Response:
        """End it early; its findings are kept."""
        run, who, why = self.get_object(), person(request), reason_of(request)
        return self.answer(lifecycle.abort_comparison(run=run, who=who, why=why))


class _ComparisonRowsViewSet(RelatedViewSet):
    """Rows of one comparison."""

    parent = Comparison
    parent_field = "comparison"


class ComparisonPartViewSet(_ComparisonRowsViewSet):
    """Partitions: what was compared, and what was not, with the reason."""

    queryset = ComparisonPart.objects.order_by("topic", "partition")
    serializer_class = ComparisonPartSerializer
    search_fields = PARTITIONS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = PARTITIONS.orderings
    filter_fields: ClassVar = {"topic": "topic", "verdict": "verdict"}


class ComparisonFindingViewSet(_ComparisonRowsViewSet):
    """Differences, with their exact offsets."""

    queryset = ComparisonFinding.objects.order_by("id")
    serializer_class = ComparisonFindingSerializer
    search_fields = FINDINGS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = FINDINGS.orderings
    filter_fields: ClassVar = {"about": "about", "kind": "kind", "weight": "weight"}
