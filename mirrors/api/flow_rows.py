"""REST lists below a flow: flows/{id}/topics/, partitions/, jobs/, transitions/."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import mixins, viewsets

from mirrors.api import progress
from mirrors.models import Flow, FlowPartition, FlowTopic, Job, Transition


class OfFlow(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """A list of one flow's rows; no such flow, no such page."""

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        flow = get_object_or_404(Flow.objects.only("pk"), pk=self.kwargs["flow_id"])
        return self.of_flow(rows, flow)

    def of_flow(self, rows: QuerySet[Any], flow: Flow) -> QuerySet[Any]:
        return rows.filter(flow=flow)


class TopicViewSet(OfFlow):
    """Topics as the flow sees them; a skipped one says which rule said no."""

    queryset = FlowTopic.objects.order_by("topic")
    serializer_class = progress.TopicSerializer
    search_fields = ("topic", "remote_topic", "reason")
    ordering_fields = ("topic", "state", "partitions", "offset_lag", "time_lag_ms")
    filter_fields: ClassVar = {"topic": "topic", "state": "state"}


class PartitionViewSet(OfFlow):
    """Partitions with position, ends and lag, as of the moment given."""

    queryset = FlowPartition.objects.order_by("topic", "partition")
    serializer_class = progress.PartitionSerializer
    search_fields = ("topic", "remote_topic", "reason")
    ordering_fields = (
        "topic",
        "partition",
        "state",
        "position",
        "offset_lag",
        "time_lag_ms",
        "as_of",
    )
    filter_fields: ClassVar = {"topic": "topic", "state": "state", "lane": "lane", "why": "why"}


class JobViewSet(OfFlow):
    """Runs of the flow, the newest first."""

    queryset = Job.objects.select_related("runner").order_by("-id")
    serializer_class = progress.JobSerializer
    search_fields = ("reason", "error")
    ordering_fields = ("id", "state", "attempt")
    ordering_aliases: ClassVar = {"started": ("started_at",), "ended": ("ended_at",)}
    filter_fields: ClassVar = {"state": "state"}


class TransitionViewSet(OfFlow):
    """Who changed what, when and why; the newest first."""

    queryset = Transition.objects.order_by("-id")
    serializer_class = progress.TransitionSerializer
    search_fields = ("who", "why", "to_state")
    ordering_fields = ("id", "when", "who")
    filter_fields: ClassVar = {"field": "field", "who": "who"}

    def of_flow(self, rows: QuerySet[Any], flow: Flow) -> QuerySet[Any]:
        return rows.filter(subject="flow", subject_id=flow.pk)
