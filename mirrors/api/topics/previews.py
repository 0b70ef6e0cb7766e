"""REST of previews: which topics of a source a flow's settings would select."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import PropertiesField, StrictSerializer, VisibleField, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.models import Cluster, TopicPreview
from mirrors.models.access.grants import demand_here
from mirrors.models.base import READING_STATES
from mirrors.models.clusters import pair_subject
from mirrors.services.topics import readings


class TopicPreviewAskSerializer(StrictSerializer):
    source: Any = VisibleField(slug_field="alias", queryset=Cluster.objects.all())
    target: Any = VisibleField(slug_field="alias", queryset=Cluster.objects.all())
    properties = PropertiesField(required=False, default=dict)


class PreviewRowSerializer(StrictSerializer):
    topic = serializers.CharField()
    remote_topic = serializers.CharField(help_text="Empty if the topic is not replicated.")
    replicated = serializers.BooleanField()
    reason = serializers.CharField(help_text="The rule that decides.")


class TopicPreviewSerializer(serializers.ModelSerializer[TopicPreview]):
    source: Any = serializers.SlugRelatedField(slug_field="alias", read_only=True)
    target: Any = serializers.SlugRelatedField(slug_field="alias", read_only=True)
    state = serializers.SerializerMethodField()
    rows = PreviewRowSerializer(many=True, help_text="The first 100 of each kind.")
    missing = serializers.ListField(
        child=serializers.CharField(),
        help_text="Names in `topics` without a pattern that the source does not have.",
    )

    class Meta:
        model = TopicPreview
        fields = (
            *("id", "state", "source", "target", "properties", "selected", "excluded", "rows"),
            *("missing", "error", "requested_at", "ended_at"),
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(READING_STATES))
    def get_state(self, row: TopicPreview) -> str:
        return row.state_at(timezone.now())


class TopicPreviewViewSet(mixins.RetrieveModelMixin, viewsets.GenericViewSet[TopicPreview]):
    """Previews of the topics that settings select on a source, kept for an hour."""

    queryset = TopicPreview.objects.select_related("source", "target")
    serializer_class = TopicPreviewSerializer
    write_right = Right.EDIT
    lookup_value_regex = r"\d{1,18}"

    @extend_schema(request=TopicPreviewAskSerializer, responses={202: TopicPreviewSerializer})
    def create(self, request: Request) -> Response:
        """Let a worker list the source's topics; the answer is at this preview's address."""
        given = body_of(request, TopicPreviewAskSerializer)
        demand_here(pair_subject(given["source"], given["target"]))
        row = readings.request_preview(**given, who=person(request))
        return Response(self.get_serializer(row).data, status=status.HTTP_202_ACCEPTED)
