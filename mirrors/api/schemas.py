"""REST of synchronized schemas: the last comparison, subjects, and ids on both sides."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictModelSerializer
from mirrors.api.topics.plans import ChangeSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.schemas.plan import STATES
from mirrors.lists.sync import SCHEMA_IDS, SUBJECTS
from mirrors.models import Flow, SchemaId, SchemaSubject, SchemaSync
from mirrors.services.schemas.sync import request_comparison


class SchemaSyncSerializer(serializers.ModelSerializer[SchemaSync]):
    """The registries as of `as_of`. `error` says why they could not be compared since.

    `state` is `in_sync` only if every selected subject was read and nothing differs.
    """

    state = serializers.ChoiceField(choices=STATES)
    changes: Any = ChangeSerializer(many=True)
    left_out = serializers.ListField(child=serializers.CharField())
    keeps_ids = serializers.BooleanField(
        allow_null=True,
        help_text="Whether new schemas keep their ids; null before the first check.",
    )

    class Meta:
        model = SchemaSync
        fields = (
            *("state", "as_of", "asked_at", "error", "keeps_ids", "ids_reason", "subjects"),
            *("pending", "conflicts", "unread", "other_ids", "changes", "left_out"),
        )
        read_only_fields = fields


class SchemaSubjectSerializer(StrictModelSerializer):
    class Meta:
        model = SchemaSubject
        fields = SUBJECTS.fields
        extra_kwargs = SUBJECTS.extra_kwargs
        read_only_fields = fields


class SchemaIdSerializer(StrictModelSerializer):
    class Meta:
        model = SchemaId
        fields = SCHEMA_IDS.fields
        extra_kwargs = SCHEMA_IDS.extra_kwargs
        read_only_fields = fields


class SchemaSyncViewSet(viewsets.GenericViewSet[Any]):
    """What differs between the schema registries of the flow's clusters."""

    queryset = SchemaSync.objects.all()
    serializer_class = SchemaSyncSerializer
    pagination_class = None
    filter_backends = ()
    write_right = Right.OPERATE

    @extend_schema(responses=forced_singular_serializer(SchemaSyncSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        flow = self._flow()
        row = SchemaSync.objects.filter(flow=flow).first()
        return Response(SchemaSyncSerializer(row or SchemaSync(flow=flow)).data)

    @extend_schema(request=None, responses={202: SchemaSyncSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Let a worker compare both registries now. Nothing changes, also before sync is on."""
        row = request_comparison(flow=self._flow(), now=timezone.now())
        return Response(SchemaSyncSerializer(row).data, status=status.HTTP_202_ACCEPTED)

    def _flow(self) -> Flow:
        flows = Flow.objects.select_related("source", "target")
        return get_object_or_404(flows, pk=self.kwargs["flow_id"])


class SchemaSubjectViewSet(FlowRelatedViewSet):
    """Subjects as last compared, each with its state and why."""

    queryset = SchemaSubject.objects.order_by("subject")
    serializer_class = SchemaSubjectSerializer
    search_fields = SUBJECTS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = SUBJECTS.orderings
    filter_fields: ClassVar = {"state": "state", "subject": "subject"}


class SchemaIdViewSet(FlowRelatedViewSet):
    """Schemas that both registries have, with their ids and versions on each side."""

    queryset = SchemaId.objects.order_by("subject", "version")
    serializer_class = SchemaIdSerializer
    search_fields = SCHEMA_IDS.search
    ordering_fields = ()
    ordering_aliases: ClassVar = SCHEMA_IDS.orderings
    filter_fields: ClassVar = {
        "subject": "subject",
        "source_id": "source_id",
        "target_id": "target_id",
    }
