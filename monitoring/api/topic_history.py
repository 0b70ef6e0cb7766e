"""REST of the history of a flow's topics, and of its partitions that were not in sync."""

from __future__ import annotations

from typing import ClassVar

from mirrors.api.base import StrictModelSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from monitoring.models import PartitionSample, TopicSample


class TopicSampleSerializer(StrictModelSerializer):
    class Meta:
        model = TopicSample
        fields = (
            "topic",
            "resolution",
            "at",
            "owed",
            "time_lag_ms",
            "unknown_partitions",
            "records",
            "bytes",
        )
        read_only_fields = fields
        extra_kwargs: ClassVar = {
            "resolution": {"help_text": "Seconds of the step: 60 for a day, 3600 for a month."},
            "owed": {
                "help_text": "Records not replicated; a lower bound if partitions are unknown."
            },
            "records": {"help_text": "Replicated since the topic's sample before."},
            "bytes": {"help_text": "The same in bytes, as sent to the target."},
        }


class PartitionSampleSerializer(StrictModelSerializer):
    class Meta:
        model = PartitionSample
        fields = ("topic", "partition", "resolution", "at", "owed", "time_lag_ms")
        read_only_fields = fields
        extra_kwargs: ClassVar = {
            "resolution": {"help_text": "Seconds of the step: 60 for a day, 3600 for a month."},
            "owed": {"help_text": "Records not replicated; null if unknown."},
        }


class TopicSampleViewSet(FlowRelatedViewSet):
    """Samples of topics, newest first.

    A missing step means that nothing was replicated or owed, except in a minute that reached the
    limit of 2,000 samples.
    """

    queryset = TopicSample.objects.order_by("-at", "topic")
    serializer_class = TopicSampleSerializer
    search_fields = ("topic",)
    ordering_fields = ("at", "owed", "bytes")
    filter_fields: ClassVar = {"topic": "topic", "resolution": "resolution"}


class PartitionSampleViewSet(FlowRelatedViewSet):
    """Samples of partitions, newest first.

    A missing step means that the partition was in sync, except in a minute that reached the limit
    of 1,000 samples.
    """

    queryset = PartitionSample.objects.order_by("-at", "topic", "partition")
    serializer_class = PartitionSampleSerializer
    search_fields = ("topic",)
    ordering_fields = ("at", "owed")
    filter_fields: ClassVar = {"topic": "topic", "resolution": "resolution"}
