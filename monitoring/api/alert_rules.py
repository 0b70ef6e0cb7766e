"""REST of alert rules."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers, viewsets

from mirrors.api.base import FlowField, StrictModelSerializer
from mirrors.domain.access.rights import Right
from monitoring.api.audit import METHODS, AuditedWrites
from monitoring.domain.alerts.rules import LARGEST, problems_of
from monitoring.lists import RULES
from monitoring.models import AlertRule, Channel


@extend_schema_serializer(component_name="AlertRule")
class RuleSerializer(StrictModelSerializer):
    flow = FlowField(allow_null=True, required=False)
    labels = serializers.DictField(child=serializers.CharField(max_length=200), required=False)
    channels = serializers.SlugRelatedField(
        slug_field="name", queryset=Channel.objects.all(), many=True, required=False
    )
    runbook = serializers.URLField(required=False, allow_blank=True, max_length=500)
    threshold = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=LARGEST
    )
    clear_below = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=LARGEST
    )
    for_seconds = serializers.IntegerField(required=False, min_value=0, max_value=86_400)

    class Meta:
        model = AlertRule
        fields = RULES.fields
        extra_kwargs = RULES.extra_kwargs

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        def asked(name: str) -> Any:
            return attrs.get(name, getattr(self.instance, name, None))

        has_flow = asked("flow") is not None
        errors = problems_of(
            asked("kind"), asked("threshold"), asked("clear_below"), has_flow=has_flow
        )
        if errors:
            raise serializers.ValidationError(errors)
        return attrs


class RuleViewSet(AuditedWrites, viewsets.ModelViewSet[AlertRule]):
    """Conditions that fire alerts. A rule without a flow is for every flow, also for later ones."""

    queryset = AlertRule.objects.prefetch_related("channels").order_by("name")
    serializer_class = RuleSerializer
    write_right = Right.EDIT
    http_method_names = METHODS
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("name",)
    ordering_fields = ("name", "kind", "severity", "enabled")
    filter_fields: ClassVar = {"kind": "kind", "severity": "severity"}
