"""REST of conflict reports: request one, follow it, read its keys."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import FlowField, StrictSerializer, body_of, person
from mirrors.api.viewsets import RelatedViewSet, RunViewSet
from mirrors.lists.comparison import CONFLICT_KEYS, CONFLICT_REPORTS
from mirrors.models import ConflictKey, ConflictReport
from mirrors.models.base import READING_STATES
from mirrors.services.comparison import conflicts


class ConflictReportAskSerializer(StrictSerializer):
    """For which flow, and its opposite one, conflicting keys are found."""

    flow = FlowField()
    window_seconds = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=conflicts.MOST_WINDOW_S,
        default=conflicts.WINDOW_S,
        help_text="The longest time between the records of both sides.",
    )
    period_seconds = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=conflicts.MOST_PERIOD_S,
        default=conflicts.PERIOD_S,
        help_text="How far back both sides are read.",
    )


class ConflictReportSerializer(serializers.ModelSerializer[ConflictReport]):
    """`keys` and `differing` are null until the report has ended, and if it failed (`error`)."""

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    state = serializers.SerializerMethodField()
    limits = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = ConflictReport
        fields = CONFLICT_REPORTS.fields
        extra_kwargs = CONFLICT_REPORTS.extra_kwargs

    @extend_schema_field(serializers.ChoiceField(READING_STATES))
    def get_state(self, report: ConflictReport) -> str:
        return report.state_at(timezone.now())


class ConflictKeySerializer(serializers.ModelSerializer[ConflictKey]):
    """`key` is the digest of the key for people who may not read records."""

    key = serializers.CharField(read_only=True)

    class Meta:
        model = ConflictKey
        fields = CONFLICT_KEYS.fields
        extra_kwargs = CONFLICT_KEYS.extra_kwargs


class ConflictReportViewSet(RunViewSet):
    """Reports of keys that producers wrote on both sides. They change nothing."""

    queryset = ConflictReport.objects.all()
    serializer_class = run_serializer = ConflictReportSerializer
    search_fields = ("flow__source__alias", "flow__target__alias", "requested_by")
    ordering_fields = ("ended_at",)
    ordering_aliases: ClassVar = CONFLICT_REPORTS.orderings
    filter_fields: ClassVar = {"source": "flow__source__alias", "target": "flow__target__alias"}

    def get_queryset(self) -> QuerySet[ConflictReport]:
        rows = ConflictReport.objects.select_related("flow__source", "flow__target")
        return rows.order_by("-id")

    @extend_schema(request=ConflictReportAskSerializer, responses={201: ConflictReportSerializer})
    def create(self, request: Request) -> Response:
        """Request a report. A runner makes it; poll its address until it has ended."""
        given: dict[str, Any] = body_of(request, ConflictReportAskSerializer)
        return self.created(conflicts.request_report(who=person(request), **given))


class ConflictKeyViewSet(RelatedViewSet):
    """The conflicting keys of a report: at most 1000, the newest conflicts first."""

    parent = ConflictReport
    parent_field = "report"
    queryset = ConflictKey.objects.order_by("id")
    serializer_class = ConflictKeySerializer
    search_fields = CONFLICT_KEYS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = CONFLICT_KEYS.orderings
    filter_fields: ClassVar = {"topic": "topic", "agrees": "agrees"}

    def of_parent(self, rows: QuerySet[Any], parent: Any) -> QuerySet[Any]:
        return conflicts.with_keys(super().of_parent(rows, parent), self.request.user, parent)
