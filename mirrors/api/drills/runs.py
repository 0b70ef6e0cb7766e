"""REST of drills: schedules, runs, and a drill now."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import FlowField, StrictModelSerializer, StrictSerializer, body_of, person
from mirrors.api.viewsets import RunViewSet
from mirrors.domain.access.rights import Right
from mirrors.lists.drills import DRILL_RUNS, DRILL_SCHEDULES
from mirrors.models import Drill, DrillRun
from mirrors.models.groups.offsets import LONGEST_GROUP
from mirrors.services.drills import schedules
from mirrors.services.failover.lifecycle import MOST_GROUPS


def _groups_field() -> serializers.ListField:
    return serializers.ListField(
        child=serializers.CharField(max_length=LONGEST_GROUP),
        required=False,
        max_length=MOST_GROUPS,
        help_text="Consumer groups; by default all that the flow synchronizes.",
    )


class DrillSerializer(StrictModelSerializer):
    """`schedule` is five cron fields, in the time zone `time_zone`."""

    flow = FlowField()
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    schedule = serializers.CharField(max_length=100)
    time_zone = serializers.CharField(max_length=64, required=False)
    groups = _groups_field()
    enabled = serializers.BooleanField(required=False)
    next_at = serializers.SerializerMethodField()

    class Meta:
        model = Drill
        fields = DRILL_SCHEDULES.fields
        extra_kwargs = DRILL_SCHEDULES.extra_kwargs
        read_only_fields = ("id", "changed_by", "created_at")

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_next_at(self, drill: Drill) -> datetime | None:
        return schedules.next_at(drill, now=timezone.now())

    def validate_flow(self, value: Any) -> Any:
        if self.instance is not None and value != self.instance.flow:
            raise serializers.ValidationError("It cannot change. Schedule another drill instead.")
        return value


class DrillViewSet(viewsets.ModelViewSet[Drill]):
    """Schedules of drills. A missed run is caught up once. Drills change nothing real."""

    queryset = Drill.objects.all()
    serializer_class = DrillSerializer
    write_right = Right.EDIT
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]  # noqa: RUF012
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("flow__source__alias", "flow__target__alias", "schedule", "changed_by")
    ordering_fields = ("created_at",)
    ordering_aliases: ClassVar = DRILL_SCHEDULES.orderings
    filter_fields: ClassVar = {
        "source": "flow__source__alias",
        "target": "flow__target__alias",
    }

    def get_queryset(self) -> QuerySet[Drill]:
        return Drill.objects.select_related("flow__source", "flow__target").order_by("id")

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        given = {"time_zone": "UTC", **serializer.validated_data}
        drill = schedules.create_drill(**given, who=person(request))
        return Response(self.get_serializer(drill).data, status=status.HTTP_201_CREATED)

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        drill = self.get_object()
        serializer = self.get_serializer(drill, data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        known = {
            name: getattr(drill, name) for name in ("schedule", "time_zone", "groups", "enabled")
        }
        given = {name: serializer.validated_data.get(name, value) for name, value in known.items()}
        drill = schedules.update_drill(drill=drill, **given, who=person(request))
        return Response(self.get_serializer(drill).data)

    def perform_destroy(self, instance: Drill) -> None:
        schedules.delete_drill(drill=instance, who=person(self.request))


class DrillAskSerializer(StrictSerializer):
    """A request to run a drill now."""

    flow = FlowField()
    groups = _groups_field()


class DrillRunSerializer(serializers.ModelSerializer[DrillRun]):
    """`measured` and `verdict` are set at the end; `verdict.breaches` has missed objectives."""

    flow = serializers.IntegerField(source="flow_id", read_only=True, allow_null=True)
    failover = serializers.IntegerField(source="run_id", read_only=True, allow_null=True)
    certificate = serializers.SerializerMethodField()
    measured = serializers.SerializerMethodField()
    verdict = serializers.SerializerMethodField()
    objectives = serializers.SerializerMethodField()

    class Meta:
        model = DrillRun
        fields = DRILL_RUNS.fields
        extra_kwargs = DRILL_RUNS.extra_kwargs

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_certificate(self, run: DrillRun) -> str | None:
        found = getattr(run, "certificate", None)
        return found.number if found else None

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_measured(self, run: DrillRun) -> Any:
        return run.measured

    @extend_schema_field(serializers.DictField(allow_null=True))
    def get_verdict(self, run: DrillRun) -> Any:
        return run.verdict

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_objectives(self, run: DrillRun) -> Any:
        return run.objectives


class DrillRunViewSet(RunViewSet):
    """Drill runs, newest first: measured values, objectives, and by how much they were missed."""

    queryset = DrillRun.objects.all()
    serializer_class = run_serializer = DrillRunSerializer
    search_fields = DRILL_RUNS.search
    ordering_fields = ("ended_at",)
    ordering_aliases: ClassVar = DRILL_RUNS.orderings
    filter_fields: ClassVar = {
        "state": "state",
        "verification": "verification",
        "flow_name": "flow_name",
        "source": "flow__source__alias",
        "target": "flow__target__alias",
    }

    def get_queryset(self) -> QuerySet[DrillRun]:
        return DrillRun.objects.select_related("certificate").order_by("-id")

    @extend_schema(request=DrillAskSerializer, responses={201: DrillRunSerializer})
    def create(self, request: Request) -> Response:
        """Run a drill now. Poll its address until it has ended; the certificate follows."""
        given = body_of(request, DrillAskSerializer)
        return self.created(schedules.request_drill(**given, who=person(request)))
