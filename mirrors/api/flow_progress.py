"""REST of a flow's topics, partitions, jobs, transitions and explanations."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from rest_framework import mixins, serializers, viewsets

from mirrors.api.account import AccountOfPartition, AccountOfTopic
from mirrors.api.base import StrictModelSerializer, StrictSerializer
from mirrors.domain.flows.lanes import LANES
from mirrors.models import Flow, FlowPartition, FlowTopic, Job, Transition


class TopicSerializer(AccountOfTopic):
    class Meta:
        model = FlowTopic
        fields = (
            "topic",
            "remote_topic",
            "state",
            "reason",
            "code",
            "partitions",
            "offset_lag",
            "time_lag_ms",
            "owed",
            "as_of",
        )
        read_only_fields = fields


class PartitionSerializer(AccountOfPartition):
    class Meta:
        model = FlowPartition
        fields = (
            "topic",
            "partition",
            "remote_topic",
            "state",
            "reason",
            "position",
            "source_end",
            "source_stable_end",
            "source_first",
            "code",
            "offset_lag",
            "time_lag_ms",
            "owed",
            "lane",
            "repeats",
            "why",
            "as_of",
        )
        read_only_fields = fields


class LaneSerializer(StrictSerializer):
    """Records of a job that used one lane for one reason."""

    lane = serializers.ChoiceField(choices=LANES, read_only=True)
    why = serializers.CharField(read_only=True)
    batches = serializers.IntegerField(read_only=True)
    records = serializers.IntegerField(read_only=True)
    bytes = serializers.IntegerField(read_only=True)


class JobSerializer(StrictModelSerializer):
    runner: Any = serializers.SlugRelatedField(slug_field="name", read_only=True)
    started = serializers.DateTimeField(source="started_at", read_only=True)
    ended = serializers.DateTimeField(source="ended_at", read_only=True)
    lanes = LaneSerializer(many=True, read_only=True)

    class Meta:
        model = Job
        fields = (
            "id",
            "runner",
            "generation",
            "attempt",
            "state",
            "started",
            "ended",
            "reason",
            "error",
            "records",
            "bytes",
            "lanes",
            "as_of",
        )
        read_only_fields = fields


class TransitionSerializer(StrictModelSerializer):
    class Meta:
        model = Transition
        fields = ("id", "who", "when", "field", "from", "to", "why")
        read_only_fields = fields

    def get_fields(self) -> dict[str, serializers.Field]:
        # `from` is a Python keyword, so it cannot be an attribute.
        return {
            "id": serializers.IntegerField(read_only=True),
            "who": serializers.CharField(read_only=True),
            "when": serializers.DateTimeField(read_only=True),
            "field": serializers.CharField(read_only=True),
            "from": serializers.CharField(source="from_state", read_only=True),
            "to": serializers.CharField(source="to_state", read_only=True),
            "why": serializers.CharField(read_only=True),
        }


class RuleSerializer(StrictSerializer):
    rule = serializers.CharField()
    passed = serializers.BooleanField(allow_null=True)
    reason = serializers.CharField()


class ExplanationSerializer(StrictSerializer):
    """The verdict on a topic or a group."""

    topic = serializers.CharField(required=False)
    remote_topic = serializers.CharField(required=False, allow_null=True)
    group = serializers.CharField(required=False)
    replicated = serializers.BooleanField()
    reason = serializers.CharField()
    rules = RuleSerializer(many=True)
    fix = serializers.CharField(allow_null=True)


class PreviewSerializer(StrictSerializer):
    """What an edit changes, and what it will restart."""

    changes = serializers.ListField(child=serializers.DictField(), read_only=True)
    restarts = serializers.ListField(child=serializers.CharField(), read_only=True)
    warnings = serializers.ListField(child=serializers.CharField(), read_only=True)


class OfFlow(mixins.ListModelMixin, viewsets.GenericViewSet[Any]):
    """A list of one flow's rows; 404 if there is no such flow."""

    def get_queryset(self) -> QuerySet[Any]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        flow = get_object_or_404(Flow.objects.only("pk"), pk=self.kwargs["flow_id"])
        return self.of_flow(rows, flow)

    def of_flow(self, rows: QuerySet[Any], flow: Flow) -> QuerySet[Any]:
        return rows.filter(flow=flow)


class TopicViewSet(OfFlow):
    """Topics of the flow; a skipped topic names the rule that excludes it."""

    queryset = FlowTopic.objects.order_by("topic")
    serializer_class = TopicSerializer
    search_fields = ("topic", "remote_topic", "reason")
    ordering_fields = ("topic", "state", "partitions", "offset_lag", "time_lag_ms")
    filter_fields: ClassVar = {"topic": "topic", "state": "state"}


class PartitionViewSet(OfFlow):
    """Partitions with position, end offsets and lag, as of `as_of`."""

    queryset = FlowPartition.objects.order_by("topic", "partition")
    serializer_class = PartitionSerializer
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
    """Jobs of the flow, newest first."""

    queryset = Job.objects.select_related("runner").order_by("-id")
    serializer_class = JobSerializer
    search_fields = ("reason", "error")
    ordering_fields = ("id", "state", "attempt")
    ordering_aliases: ClassVar = {"started": ("started_at",), "ended": ("ended_at",)}
    filter_fields: ClassVar = {"state": "state"}


class TransitionViewSet(OfFlow):
    """Transitions of the flow, newest first: author, time and reason."""

    queryset = Transition.objects.order_by("-id")
    serializer_class = TransitionSerializer
    search_fields = ("who", "why", "to_state")
    ordering_fields = ("id", "when", "who")
    filter_fields: ClassVar = {"field": "field", "who": "who"}

    def of_flow(self, rows: QuerySet[Any], flow: Flow) -> QuerySet[Any]:
        return rows.filter(subject="flow", subject_id=flow.pk)
