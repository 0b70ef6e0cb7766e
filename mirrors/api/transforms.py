"""REST of previews of rules: a flow's rules, or others, on the newest records of a topic."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.domain.transforms.evaluation import MOST_RECORDS, RecordParts
from mirrors.domain.transforms.preview import OUTCOMES
from mirrors.domain.transforms.rules import ERROR_ACTIONS, EXPRESSION_FIELDS
from mirrors.models import Flow, RulePreview
from mirrors.models.base import READING_STATES
from mirrors.services.topics import transforms

PARTS = RecordParts._fields


class RulePreviewAskSerializer(StrictSerializer):
    topic = serializers.CharField(max_length=249)
    count = serializers.IntegerField(
        default=transforms.DEFAULT_COUNT, min_value=1, max_value=MOST_RECORDS
    )
    transforms = serializers.CharField(
        required=False,
        allow_null=True,
        default=None,
        max_length=20_000,
        help_text="Rules as in the property; nothing is saved. Without it, the flow's own.",
    )


class RulePreviewTotalsSerializer(StrictSerializer):
    records = serializers.IntegerField(help_text="The records that were looked at.")
    kept = serializers.IntegerField(help_text="Copied unchanged.")
    changed = serializers.IntegerField()
    dropped = serializers.IntegerField()
    failed = serializers.IntegerField(
        help_text="Each stops its partition, or becomes a dead letter: `on_error`."
    )
    bytes_before = serializers.IntegerField(
        help_text="Keys, values and headers before compression, without records that failed."
    )
    bytes_after = serializers.IntegerField()


class PreviewTargetSerializer(StrictSerializer):
    topic = serializers.CharField(help_text="On the target.")
    records = serializers.IntegerField(help_text="The previewed records that go there.")


class PreviewPartitionSerializer(StrictSerializer):
    partition = serializers.IntegerField()
    records = serializers.IntegerField(help_text="The records of it that were looked at.")
    end = serializers.IntegerField(allow_null=True, help_text="Its last stable offset then.")
    reason = serializers.CharField(allow_blank=True, help_text="Why it was not read.")


class PreviewPathSerializer(StrictSerializer):
    field = serializers.ChoiceField(EXPRESSION_FIELDS)
    function = serializers.CharField()
    path = serializers.CharField()
    column = serializers.CharField(allow_blank=True)
    records = serializers.IntegerField(
        allow_null=True,
        help_text="How many records have this field. Null if the function gets no key or value, or "
        "if a record that could not be read may have it.",
    )


class RejectionSerializer(StrictSerializer):
    number = serializers.IntegerField(help_text="Of the rule, from 1.")
    field = serializers.ChoiceField(EXPRESSION_FIELDS)
    message = serializers.CharField(help_text="Spark's own.")


class PreviewHeaderSerializer(StrictSerializer):
    name = serializers.CharField()
    value = serializers.CharField(required=False, allow_null=True)
    value_base64 = serializers.CharField(required=False)


class PreviewedPartsSerializer(StrictSerializer):
    """Bytes that are not UTF-8 are in `…_base64`. Long parts are cut."""

    key = serializers.CharField(required=False, allow_null=True)
    key_base64 = serializers.CharField(required=False)
    value = serializers.CharField(required=False, allow_null=True)
    value_base64 = serializers.CharField(required=False)
    headers = PreviewHeaderSerializer(many=True)
    bytes = serializers.IntegerField(help_text="Of all parts, uncut.")
    is_cut = serializers.BooleanField()


class PreviewedRecordSerializer(StrictSerializer):
    partition = serializers.IntegerField()
    offset = serializers.IntegerField()
    timestamp = serializers.IntegerField(help_text="Milliseconds since the epoch; -1: none.")
    outcome = serializers.ChoiceField(OUTCOMES)
    changed = serializers.ListField(child=serializers.ChoiceField(PARTS))
    failed = serializers.CharField(allow_blank=True, help_text="The field that failed.")
    message = serializers.CharField(allow_blank=True, help_text="Spark's own, of a failure.")
    before = PreviewedPartsSerializer()
    after = PreviewedPartsSerializer(allow_null=True, help_text="Null if dropped or failed.")
    target = serializers.CharField(
        allow_null=True, help_text="The topic on the target. Null if dropped or failed."
    )


class RulePreviewSerializer(serializers.ModelSerializer[RulePreview]):
    state = serializers.SerializerMethodField()
    flow = serializers.IntegerField(source="flow_id")
    transforms = serializers.CharField(source="rules")
    rule = serializers.SerializerMethodField()
    effect = serializers.SerializerMethodField()
    on_error = serializers.SerializerMethodField()
    totals = serializers.SerializerMethodField()
    targets = serializers.SerializerMethodField()
    partitions = serializers.SerializerMethodField()
    left_out = serializers.SerializerMethodField()
    paths = serializers.SerializerMethodField()
    rejections = serializers.SerializerMethodField()
    records = serializers.SerializerMethodField()

    class Meta:
        model = RulePreview
        fields = (
            *("id", "state", "flow", "topic", "count", "transforms", "is_edited", "rule"),
            *(
                "effect",
                "on_error",
                "totals",
                "targets",
                "partitions",
                "left_out",
                "paths",
                "rejections",
                "records",
            ),
            *("error", "requested_by", "requested_at", "as_of", "ended_at"),
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(READING_STATES))
    def get_state(self, row: RulePreview) -> str:
        return row.state_at(timezone.now())

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_rule(self, row: RulePreview) -> Any:
        """The number of the rule that matches the topic; null if none does, or until it ends."""
        return row.found.get("rule")

    def get_effect(self, row: RulePreview) -> str:
        """What that rule does."""
        return str(row.found.get("effect", ""))

    @extend_schema_field(RulePreviewTotalsSerializer(allow_null=True))
    def get_totals(self, row: RulePreview) -> Any:
        """Null until it ends, and if it failed."""
        return row.found.get("totals")

    @extend_schema_field(PreviewTargetSerializer(many=True))
    def get_targets(self, row: RulePreview) -> Any:
        """Where the records go: several topics if the rule has routes."""
        return row.found.get("targets", [])

    @extend_schema_field(PreviewPartitionSerializer(many=True))
    def get_partitions(self, row: RulePreview) -> Any:
        """What was looked at, at `as_of`."""
        return row.found.get("partitions", [])

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_left_out(self, row: RulePreview) -> Any:
        """Newest records that are too large together, or that no client can decode."""
        return row.found.get("left_out")

    @extend_schema_field(serializers.ChoiceField(ERROR_ACTIONS, allow_null=True))
    def get_on_error(self, row: RulePreview) -> Any:
        """What happens to records that fail."""
        return row.found.get("on_error")

    @extend_schema_field(PreviewPathSerializer(many=True))
    def get_paths(self, row: RulePreview) -> Any:
        """Each path that the rule gives to a function on JSON."""
        return row.found.get("paths", [])

    @extend_schema_field(RejectionSerializer(many=True))
    def get_rejections(self, row: RulePreview) -> Any:
        """Expressions that Spark does not accept; the preview has failed then."""
        return row.found.get("rejections", [])

    @extend_schema_field(PreviewedRecordSerializer(many=True))
    def get_records(self, row: RulePreview) -> Any:
        """Each record before and after, newest first."""
        return row.found.get("rows", [])


class RulePreviewViewSet(mixins.RetrieveModelMixin, viewsets.GenericViewSet[RulePreview]):
    """Previews of rules, kept for an hour. They hold records, so operators see them."""

    queryset = RulePreview.objects.defer("request")
    serializer_class = RulePreviewSerializer
    read_right = write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"

    def get_queryset(self) -> QuerySet[RulePreview]:
        rows = super().get_queryset()
        if getattr(self, "swagger_fake_view", False):
            return rows.none()
        return rows.filter(flow=self.kwargs["flow_id"])

    @extend_schema(request=RulePreviewAskSerializer, responses={202: RulePreviewSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Evaluate rules on the newest records of a topic; the answer is at its own address.

        Nothing is written to Kafka, and no rule is saved.
        """
        given = body_of(request, RulePreviewAskSerializer)
        rows = Flow.objects.select_related("source", "target", "runner")
        row = transforms.request_preview(
            flow=get_object_or_404(rows, pk=flow_id),
            rules=given.pop("transforms"),
            **given,
            who=person(request),
        )
        return Response(self.get_serializer(row).data, status=status.HTTP_202_ACCEPTED)
