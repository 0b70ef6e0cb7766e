"""Shapes of the way back in REST: divergence points, orphans, a way back, what is asked of it."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from mirrors.api.shapes import StrictModelSerializer, StrictSerializer
from mirrors.domain.failback.orphans import DECISIONS
from mirrors.models import Divergence, Failback, Flow, OrphanStretch


class DivergenceSerializer(StrictModelSerializer):
    class Meta:
        model = Divergence
        fields = (
            "topic",
            "partition",
            "remote_topic",
            "position",
            "downstream",
            "end",
            "how",
            "source_cluster",
            "source_topic_id",
            "target_cluster",
            "target_topic_id",
            "mark",
            "kept_at",
        )
        read_only_fields = fields


class OrphanSerializer(StrictModelSerializer):
    """Offsets from `first` up to, but without, `end`; `records` of them are somebody's.

    `certainty` is `counted`, or `at_most` where not all could be read.
    """

    class Meta:
        model = OrphanStretch
        fields = (
            "id",
            "topic",
            "partition",
            "remote_topic",
            "first",
            "end",
            "gone",
            "records",
            "certainty",
            "kept",
            "bytes",
            "settled_to",
            "state",
            "reason",
            "decision",
            "decided_by",
            "decided_at",
            "decided_why",
        )
        read_only_fields = fields


class FailbackAskSerializer(StrictSerializer):
    flow = serializers.PrimaryKeyRelatedField(
        queryset=Flow.objects.select_related("source", "target", "runner"),
        help_text="The flow that failed over; the way back is the other direction.",
    )
    reason = serializers.CharField(max_length=500)


class PlaceSerializer(StrictSerializer):
    topic = serializers.CharField(max_length=255)
    partition = serializers.IntegerField(min_value=0)


class OrphanDecisionSerializer(StrictSerializer):
    decision = serializers.ChoiceField(choices=list(DECISIONS))
    reason = serializers.CharField(max_length=500)
    partitions = PlaceSerializer(many=True, required=False, allow_null=True)


class GroupsAskSerializer(StrictSerializer):
    act = serializers.BooleanField(
        default=False, help_text="Put idle groups there; without it they are only looked at."
    )


class SwitchAskSerializer(StrictSerializer):
    confirm_alias = serializers.CharField(
        max_length=100, help_text="The alias of the old primary, to which clients go back."
    )
    reason = serializers.CharField(max_length=400)


class FailbackSerializer(StrictModelSerializer):
    flow = serializers.IntegerField(source="flow_id", read_only=True)
    reverse = serializers.IntegerField(source="reverse_id", read_only=True, allow_null=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    asked_reason = serializers.CharField(source="why", read_only=True)
    starts = serializers.SerializerMethodField()
    changes = serializers.ListField(child=serializers.CharField(), read_only=True)
    groups = serializers.SerializerMethodField()

    class Meta:
        model = Failback
        fields = (
            "id",
            "flow",
            "flow_name",
            "reverse",
            "state",
            "reason",
            "since",
            "asked_reason",
            "requested_by",
            "starts",
            "changes",
            "groups",
            "groups_at",
            "created_at",
            "listed_at",
            "ended_at",
        )
        read_only_fields = fields

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_starts(self, run: Failback) -> Any:
        return run.starts

    @extend_schema_field(OpenApiTypes.OBJECT)
    def get_groups(self, run: Failback) -> Any:
        return run.groups
