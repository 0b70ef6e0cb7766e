"""REST of a flow's topics, partitions, jobs, transitions and explanations."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.account import AccountOfPartition, AccountOfTopic
from mirrors.api.base import StrictModelSerializer, StrictSerializer, person
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.flows.lanes import LANES
from mirrors.domain.flows.latency import Latency
from mirrors.domain.flows.slice_packing import STATES as PACKING_STATES
from mirrors.domain.flows.speed_limits import NAMES
from mirrors.domain.formatting import OLD_AFTER
from mirrors.domain.transforms.rules import ERROR_ACTIONS
from mirrors.lists.audit import EVENTS_OF_FLOW
from mirrors.lists.flows import JOBS, PARTITIONS, TOPICS
from mirrors.models import (
    Flow,
    FlowPartition,
    FlowTopic,
    Gap,
    GroupOffset,
    Job,
    TopicConfigs,
    Transition,
)
from mirrors.models.base import READING_STATES
from mirrors.services.comparison.verified import with_verified
from mirrors.services.topics import readings

# The clusters of a flow. Shipped: an enumeration of the OpenAPI document.
SIDES = ("source", "target")


class ConfigRowSerializer(StrictSerializer):
    """One config of a topic and of its remote topic."""

    key = serializers.CharField()
    source = serializers.CharField(  # type: ignore[assignment]
        allow_null=True, help_text="Null: it is not known there."
    )
    target = serializers.CharField(allow_null=True)
    source_set = serializers.BooleanField(help_text="Whether the topic overrides the default.")
    target_set = serializers.BooleanField()
    verdict = serializers.ChoiceField(
        choices=("differs", "unknown", "excluded", "same"),
        help_text=(
            "differs: the sync task topic configs will set it. unknown: a side could not be read. "
            "excluded: it differs and the flow leaves it."
        ),
    )
    reason = serializers.CharField()


class TopicConfigsSerializer(serializers.ModelSerializer[TopicConfigs]):
    """The last reading of both clusters, differences first."""

    state = serializers.SerializerMethodField()
    rows = ConfigRowSerializer(many=True)

    class Meta:
        model = TopicConfigs
        fields = ("state", "rows", "error", "requested_by", "requested_at", "ended_at")
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(READING_STATES))
    def get_state(self, row: TopicConfigs) -> str:
        return row.state_at(timezone.now())


class LatencySerializer(StrictSerializer):
    """Replication latency of the last minute: from a record's timestamp to its commit."""

    records = serializers.IntegerField()
    total_ms = serializers.IntegerField()
    mean_ms = serializers.IntegerField()
    min_ms = serializers.IntegerField()
    max_ms = serializers.IntegerField()


def latency_fields(stored: list[int] | None, as_of: datetime | None) -> dict[str, int] | None:
    """The fields of a stored latency; None for old figures, or if nothing was committed."""
    if not stored or as_of is None or timezone.now() - as_of > OLD_AFTER:
        return None
    found = Latency(*stored)
    return {**found._asdict(), "mean_ms": round(found.mean_ms)}


class LatencyOfRow(serializers.Serializer[Any]):
    """Adds `latency` to a serializer of topics or partitions."""

    latency = serializers.SerializerMethodField()

    @extend_schema_field(LatencySerializer(allow_null=True))
    def get_latency(self, row: FlowTopic | FlowPartition) -> Any:
        """Null if no record was committed in the last minute, or if the figures are old."""
        return latency_fields(row.latency, row.as_of)


class TopicSerializer(LatencyOfRow, AccountOfTopic):
    class Meta:
        model = FlowTopic
        fields = TOPICS.fields
        extra_kwargs = TOPICS.extra_kwargs
        read_only_fields = fields


class TopicDetailSerializer(TopicSerializer):
    """One topic with its partitions by state, the groups that read it, and its configs."""

    states = serializers.DictField(
        child=serializers.IntegerField(), help_text="Partitions by what they owe."
    )
    open_gaps = serializers.SerializerMethodField()
    groups = serializers.SerializerMethodField()
    configs = serializers.SerializerMethodField()

    class Meta(TopicSerializer.Meta):
        fields = (*TOPICS.fields, "states", "open_gaps", "groups", "configs")
        read_only_fields = fields

    @extend_schema_field(serializers.IntegerField(help_text="That need a decision."))
    def get_open_gaps(self, row: FlowTopic) -> int:
        gaps = Gap.objects.filter(flow=row.flow_id, topic=row.topic, closed_at=None)
        return gaps.filter(state="open").count()

    @extend_schema_field(
        serializers.ListField(child=serializers.CharField(), help_text="At most 200.")
    )
    def get_groups(self, row: FlowTopic) -> list[str]:
        rows = GroupOffset.objects.filter(flow=row.flow_id, topic=row.topic).order_by("group")
        return list(rows.values_list("group", flat=True).distinct()[:200])

    @extend_schema_field(TopicConfigsSerializer(allow_null=True))
    def get_configs(self, row: FlowTopic) -> Any:
        """Null until somebody requested a reading."""
        found = TopicConfigs.objects.filter(flow=row.flow_id, topic=row.topic).first()
        return None if found is None else TopicConfigsSerializer(found).data


class PartitionSerializer(LatencyOfRow, AccountOfPartition):
    """`verified_offset`: comparisons found the records below it the same, as of `verified_at`."""

    verified_offset = serializers.IntegerField(read_only=True, allow_null=True)
    verified_at = serializers.DateTimeField(read_only=True, allow_null=True)

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
    side = serializers.ChoiceField(choices=(*SIDES, ""), read_only=True)
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


class PackingSerializer(StrictSerializer):
    """How evenly the observed bytes are distributed over the slices of a flow."""

    state = serializers.ChoiceField(
        choices=PACKING_STATES,
        read_only=True,
        help_text=(
            "unknown: not observed yet. even: nothing to do. idle: too few bytes for it to "
            "matter. indivisible: one partition has too many of them. waits: uneven, `reason` says "
            "for what it waits. due: the partitions are packed again now."
        ),
    )
    reason = serializers.CharField(read_only=True, help_text="The same as a sentence.")
    ratio = serializers.FloatField(
        read_only=True,
        allow_null=True,
        help_text="Bytes of the busiest slice relative to an even share, 1 or more.",
    )
    best = serializers.FloatField(
        read_only=True, allow_null=True, help_text="The same after packing by observed bytes."
    )
    packings = serializers.IntegerField(
        read_only=True, help_text="How often the flow was packed by observed bytes while it ran."
    )
    packed_at = serializers.DateTimeField(read_only=True, allow_null=True)


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
        fields = ("id", "when", "field", "from", "to", "who", "why")
        extra_kwargs: ClassVar = {"from": {"source": "from_state"}, "to": {"source": "to_state"}}
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
    transform_rule = serializers.IntegerField(
        required=False,
        allow_null=True,
        help_text="Of a topic: the number of the flow's rule that matches it, from 1; null if "
        "none does, or if the topic is not replicated.",
    )
    routes = serializers.ListField(
        child=serializers.CharField(),
        required=False,
        help_text="Of a topic: further topics on the target for its records, by that rule.",
    )


class TransformRuleSerializer(StrictSerializer):
    """A rule of a flow. Each expression is Spark SQL over the columns of a record."""

    number = serializers.IntegerField(help_text="The first rule that matches a topic applies.")
    topics = serializers.CharField(help_text="A regular expression for whole source topics.")
    where = serializers.CharField(
        allow_null=True, help_text="Records for which it is not true are dropped."
    )
    key = serializers.CharField(allow_null=True, help_text="The new key.")
    value = serializers.CharField(allow_null=True, help_text="The new value.")
    headers = serializers.CharField(allow_null=True, help_text="The new headers.")
    topic = serializers.CharField(
        allow_null=True, help_text="The topic on the target: one of `routes`, or null."
    )
    routes = serializers.ListField(
        child=serializers.CharField(), help_text="Further topics on the target for its records."
    )
    modules = serializers.DictField(
        child=serializers.CharField(), help_text="The SHA-256 of each module of user code, by name."
    )
    provenance = serializers.BooleanField(
        help_text="Whether headers with the origin of each record are added."
    )
    on_error = serializers.ChoiceField(
        ERROR_ACTIONS, help_text="What happens to a record for which an expression fails."
    )


class PreviewSerializer(StrictSerializer):
    """What an edit changes, and what it will restart."""

    changes = serializers.ListField(child=serializers.DictField(), read_only=True)
    restarts = serializers.ListField(child=serializers.CharField(), read_only=True)
    warnings = serializers.ListField(child=serializers.CharField(), read_only=True)


class TopicViewSet(mixins.RetrieveModelMixin, FlowRelatedViewSet):
    """Topics of the flow; a skipped topic names the rule that excludes it."""

    queryset = FlowTopic.objects.order_by("topic")
    serializer_class = TopicSerializer
    write_right = Right.OPERATE
    lookup_field = "topic"
    lookup_value_regex = "[^/]{1,255}"
    search_fields = TOPICS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = TOPICS.orderings
    filter_fields: ClassVar = {"topic": "topic", "state": "state"}

    def get_serializer_class(self) -> Any:
        return TopicDetailSerializer if self.action == "retrieve" else TopicSerializer

    @extend_schema(request=None, responses={202: TopicConfigsSerializer})
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def configs(self, request: Request, flow_id: str, topic: str) -> Response:
        """Let a worker read the configs on both clusters; the topic's address has the answer."""
        row = get_object_or_404(self.get_queryset().select_related("flow"), topic=topic)
        reading = readings.request_configs(row=row, who=person(request))
        return Response(TopicConfigsSerializer(reading).data, status=status.HTTP_202_ACCEPTED)


class PartitionViewSet(FlowRelatedViewSet):
    """Partitions with position, end offsets and lag, as of `as_of`."""

    queryset = with_verified(FlowPartition.objects.order_by("topic", "partition"))
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
    search_fields = EVENTS_OF_FLOW.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = EVENTS_OF_FLOW.orderings
    filter_fields: ClassVar = {"field": "field", "who": "who"}

    def of_parent(self, rows: QuerySet[Any], parent: Flow) -> QuerySet[Any]:
        return rows.filter(subject="flow", subject_id=parent.pk)
