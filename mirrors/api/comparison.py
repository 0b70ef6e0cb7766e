"""REST of comparisons: ask for one, follow it, read its partitions and what it found, abort it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.base import ReasonSerializer, StrictSerializer, person
from mirrors.api.failover.serializers import FlowField
from mirrors.models import Comparison, ComparisonFinding, ComparisonPart, Role
from mirrors.services.comparison import lifecycle


class ComparisonAskSerializer(StrictSerializer):
    """What to compare, and how much may be read for it."""

    flow = FlowField()
    topics = serializers.ListField(
        child=serializers.CharField(max_length=249),
        required=False,
        max_length=lifecycle.MOST_TOPICS,
        help_text="Source topics; without any, all that the flow copies.",
    )
    content = serializers.BooleanField(
        required=False, default=True, help_text="Whether records are compared as well."
    )
    records = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=2**63 - 1,
        default=lifecycle.RECORDS,
        help_text="How many of the last offsets of each partition; null for all.",
    )
    seconds = serializers.IntegerField(
        required=False, min_value=1, max_value=lifecycle.MOST_SECONDS, default=lifecycle.SECONDS
    )
    megabytes = serializers.IntegerField(
        required=False, min_value=1, max_value=lifecycle.MOST_MEGABYTES, default=lifecycle.MEGABYTES
    )
    reason = serializers.CharField(required=False, allow_blank=True, max_length=500)


class ComparisonSerializer(serializers.ModelSerializer[Comparison]):
    """One comparison. `verdict` is there when it has ended: same, partly (so does all that was
    read) or differs; `summary` counts each aspect."""

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    asked_reason = serializers.CharField(source="why", read_only=True)
    summary = serializers.SerializerMethodField()
    progress = serializers.SerializerMethodField()

    class Meta:
        model = Comparison
        fields = (
            "id",
            "flow",
            "flow_name",
            "state",
            "verdict",
            "reason",
            "since",
            "topics",
            "content",
            "records",
            "seconds",
            "megabytes",
            "asked_reason",
            "requested_by",
            "progress",
            "summary",
            "spent_ms",
            "read_bytes",
            "created_at",
            "started_at",
            "ended_at",
        )

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_summary(self, run: Comparison) -> Any:
        return run.summary

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_progress(self, run: Comparison) -> Any:
        return run.progress


class ComparisonPartSerializer(serializers.ModelSerializer[ComparisonPart]):
    """`source_first` up to but without `next` was compared; the two digests are equal or not."""

    class Meta:
        model = ComparisonPart
        fields = (
            "topic",
            "partition",
            "remote_topic",
            "verdict",
            "reason",
            "source_first",
            "next",
            "source_end",
            "target_first",
            "target_end",
            "source_records",
            "target_records",
            "differences",
            "explained",
            "unread",
            "compacted",
            "source_digest",
            "target_digest",
        )


class ComparisonFindingSerializer(serializers.ModelSerializer[ComparisonFinding]):
    class Meta:
        model = ComparisonFinding
        fields = (
            "about",
            "kind",
            "weight",
            "name",
            "partition",
            "source_offset",
            "target_offset",
            "sentence",
        )


class ComparisonViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Comparison]
):
    """Both clusters of a flow beside each other: nothing is changed; the newest first."""

    queryset = Comparison.objects.all()
    serializer_class = ComparisonSerializer
    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("flow__source__alias", "flow__target__alias", "reason", "requested_by")
    ordering_fields = ("id", "state", "verdict", "created_at", "ended_at")
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
        """Ask for a comparison. A worker takes it at once; poll its address until it has ended."""
        asked = ComparisonAskSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = dict(asked.validated_data)
        why = given.pop("reason", "")
        run = lifecycle.request_comparison(who=person(request), why=why, **given)
        tasks.run_comparison.delay_on_commit(run.pk)
        return Response(ComparisonSerializer(run).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=ReasonSerializer, responses=ComparisonSerializer)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: str) -> Response:
        """End it early; what it has found stays."""
        asked = ReasonSerializer(data=request.data or {})
        asked.is_valid(raise_exception=True)
        why = asked.validated_data.get("reason", "")
        run = lifecycle.abort_comparison(run=self.get_object(), who=person(request), why=why)
        return Response(ComparisonSerializer(run).data)


class _RowsOfOne(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """Rows of the comparison that the address names."""

    def get_queryset(self) -> QuerySet[Any]:
        found: QuerySet[Any] = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return found.none()
        known = Comparison.objects.only("pk")
        return found.filter(comparison=get_object_or_404(known, pk=self.kwargs["comparison_id"]))


class ComparisonPartViewSet(_RowsOfOne):
    """Each partition: what of it was compared, and what not and why."""

    queryset = ComparisonPart.objects.order_by("topic", "partition")
    serializer_class = ComparisonPartSerializer
    search_fields = ("topic", "remote_topic", "reason")
    ordering_fields = ("topic", "partition", "verdict", "differences", "unread")
    filter_fields: ClassVar = {"topic": "topic", "verdict": "verdict"}


class ComparisonFindingViewSet(_RowsOfOne):
    """What differs, and where exactly."""

    queryset = ComparisonFinding.objects.order_by("id")
    serializer_class = ComparisonFindingSerializer
    search_fields = ("name", "sentence")
    ordering_fields = ("about", "kind", "name", "partition", "source_offset")
    filter_fields: ClassVar = {"about": "about", "kind": "kind", "weight": "weight"}
