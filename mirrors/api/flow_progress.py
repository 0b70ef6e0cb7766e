"""REST of a flow's topics, partitions, jobs, transitions and explanations."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import serializers

from mirrors.api.account import AccountOfPartition, AccountOfTopic
from mirrors.api.base import StrictModelSerializer, StrictSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.domain.flows.lanes import LANES
from mirrors.domain.flows.speed_limits import NAMES
from mirrors.lists.flows import JOBS, PARTITIONS, TOPICS, TRANSITIONS
from mirrors.models import Flow, FlowPartition, FlowTopic, Job, Transition


class TopicSerializer(AccountOfTopic):
    class Meta:
        model = FlowTopic
        fields = TOPICS.fields
        extra_kwargs = TOPICS.extra_kwargs
        read_only_fields = fields


class PartitionSerializer(AccountOfPartition):
    class Meta:
        model = FlowPartition
        fields = PARTITIONS.fields
        extra_kwargs = PARTITIONS.extra_kwargs
        read_only_fields = fields


class LaneSerializer(StrictSerializer):
    """Records of a job that used one lane for one reason."""

    lane = serializers.ChoiceField(choices=LANES, read_only=True)
    why = serializers.CharField(read_only=True)
    batches = serializers.IntegerField(read_only=True)
    records = serializers.IntegerField(read_only=True)
    bytes = serializers.IntegerField(read_only=True)


class SpeedLimitSerializer(StrictSerializer):
    """The limit with the largest share of the time, as the flow's tasks measured it."""

    name = serializers.ChoiceField(
        choices=NAMES,
        read_only=True,
        help_text=(
            "source_window: fetches wait for their replies. target_window: no more may be in "
            "flight to the target. commit: a transaction ends. link: the line to `side` is full. "
            "processor: the task computes, or waits for a processor. quota: of a broker, or the "
            "flow's bandwidth limit. nothing: each slice has caught up in what it copies."
        ),
    )
    share = serializers.FloatField(read_only=True, help_text="Share of the last `seconds`, 0 to 1.")
    seconds = serializers.FloatField(read_only=True)
    side = serializers.ChoiceField(choices=("source", "target", ""), read_only=True)
    part = serializers.ChoiceField(
        choices=("bytes", "requests", "batches", "memory", ""),
        read_only=True,
        help_text="What of the target window is used up; empty for other limits.",
    )
    in_flight_bytes = serializers.IntegerField(read_only=True, allow_null=True)
    window_bytes = serializers.IntegerField(read_only=True, allow_null=True)
    response_ms = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Duration of the last request on that side."
    )
    shares = serializers.DictField(
        child=serializers.FloatField(), read_only=True, help_text="The share of each limit."
    )


class SpeedSerializer(StrictSerializer):
    """What limits the speed of a flow: the limit of most of its slices."""

    limit = SpeedLimitSerializer(
        read_only=True, allow_null=True, help_text="Null until some seconds are measured."
    )
    source_rtt_ms = serializers.FloatField(
        read_only=True, allow_null=True, help_text="Round trip from the runner to the source."
    )
    target_rtt_ms = serializers.FloatField(read_only=True, allow_null=True)
    slices = serializers.IntegerField(read_only=True, help_text="Slices that were measured.")
    limited_slices = serializers.IntegerField(
        read_only=True, help_text="Slices with this limit. The figures are those of one of them."
    )
    state = serializers.CharField(read_only=True, help_text="The same as a sentence.")
    advice = serializers.CharField(read_only=True, help_text="What to change; empty for nothing.")


class JobSerializer(StrictModelSerializer):
    runner: Any = serializers.SlugRelatedField(slug_field="name", read_only=True)
    lanes = LaneSerializer(many=True, read_only=True)

    class Meta:
        model = Job
        fields = JOBS.fields
        extra_kwargs = JOBS.extra_kwargs
        read_only_fields = fields


class TransitionSerializer(StrictModelSerializer):
    class Meta:
        model = Transition
        fields = TRANSITIONS.fields
        extra_kwargs = TRANSITIONS.extra_kwargs
        read_only_fields = fields


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


class TopicViewSet(FlowRelatedViewSet):
    """Topics of the flow; a skipped topic names the rule that excludes it."""

    queryset = FlowTopic.objects.order_by("topic")
    serializer_class = TopicSerializer
    search_fields = TOPICS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = TOPICS.orderings
    filter_fields: ClassVar = {"topic": "topic", "state": "state"}


class PartitionViewSet(FlowRelatedViewSet):
    """Partitions with position, end offsets and lag, as of `as_of`."""

    queryset = FlowPartition.objects.order_by("topic", "partition")
    serializer_class = PartitionSerializer
    search_fields = PARTITIONS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = PARTITIONS.orderings
    filter_fields: ClassVar = {"topic": "topic", "state": "state", "lane": "lane", "why": "why"}


class JobViewSet(FlowRelatedViewSet):
    """Jobs of the flow, newest first."""

    queryset = Job.objects.select_related("runner").order_by("-id")
    serializer_class = JobSerializer
    search_fields = JOBS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = {**JOBS.orderings, "ended": ("ended_at",)}
    filter_fields: ClassVar = {"state": "state"}


class TransitionViewSet(FlowRelatedViewSet):
    """Transitions of the flow, newest first: author, time and reason."""

    queryset = Transition.objects.order_by("-id")
    serializer_class = TransitionSerializer
    search_fields = TRANSITIONS.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = TRANSITIONS.orderings
    filter_fields: ClassVar = {"field": "field", "who": "who"}

    def of_parent(self, rows: QuerySet[Any], parent: Flow) -> QuerySet[Any]:
        return rows.filter(subject="flow", subject_id=parent.pk)
