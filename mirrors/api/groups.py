"""REST: flows/{id}/groups/, where consumer groups stand on both sides."""

from __future__ import annotations

from typing import ClassVar

from rest_framework import serializers

from mirrors.api.flow_rows import OfFlow
from mirrors.api.shapes import StrictModelSerializer
from mirrors.models import GroupOffset
from mirrors.models.groups import NO_PARTITION


class GroupSerializer(StrictModelSerializer):
    """A group that is left out, or has no offset anywhere, has neither topic nor partition."""

    topic = serializers.SerializerMethodField()
    partition = serializers.SerializerMethodField()

    class Meta:
        model = GroupOffset
        fields = (
            "group",
            "topic",
            "partition",
            "remote_topic",
            "source_offset",
            "translated_offset",
            "target_offset",
            "outcome",
            "sync_state",
            "reason",
            "as_of",
        )
        read_only_fields = fields

    def get_topic(self, row: GroupOffset) -> str | None:
        return row.topic or None

    def get_partition(self, row: GroupOffset) -> int | None:
        return None if row.partition == NO_PARTITION else row.partition


class GroupViewSet(OfFlow):
    """Each group and partition: its offset on the source, what it is on the target, where it is."""

    queryset = GroupOffset.objects.order_by("group", "topic", "partition")
    serializer_class = GroupSerializer
    search_fields = ("group", "topic", "reason")
    ordering_fields = (
        "group",
        "topic",
        "partition",
        "source_offset",
        "translated_offset",
        "target_offset",
        "outcome",
        "sync_state",
        "as_of",
    )
    filter_fields: ClassVar = {
        "group": "group",
        "topic": "topic",
        "outcome": "outcome",
        "sync_state": "sync_state",
    }
