"""Rows of a flow as REST shows them: topics, partitions, jobs, transitions, explanations."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from mirrors.api.accounts import AccountOfPartition, AccountOfTopic
from mirrors.api.shapes import StrictModelSerializer, StrictSerializer
from mirrors.domain.lanes import LANES
from mirrors.models import FlowPartition, FlowTopic, Job, Transition


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
    """How much of a job's records went by one lane for one reason."""

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
        # `from` is a word of Python's own, so it cannot be declared above.
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
    """Of a topic or of a group, whichever was asked for."""

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
