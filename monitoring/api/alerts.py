"""REST of alerts and silences."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import (
    FlowField,
    StrictModelSerializer,
    StrictSerializer,
    VisibleField,
    person,
)
from mirrors.domain.access.rights import Right
from mirrors.models import Cluster, Runner
from mirrors.models.access.grants import demand_here
from monitoring.alerts import actions, links
from monitoring.lists import ALERTS, SILENCES
from monitoring.models import Alert, AlertRule, Silence


class AlertSerializer(StrictModelSerializer):
    page = serializers.SerializerMethodField()
    runbook = serializers.SerializerMethodField()

    class Meta:
        model = Alert
        fields = ALERTS.fields
        extra_kwargs = ALERTS.extra_kwargs
        read_only_fields = fields

    def get_page(self, alert: Alert) -> str:
        """Path of the page that shows it."""
        return links.page_of(alert)

    def get_runbook(self, alert: Alert) -> str:
        """What to do: the URL of the rule, otherwise the path of the built-in runbook."""
        return links.runbook_of(alert)


class SilenceSerializer(StrictModelSerializer):
    flow = FlowField(allow_null=True, required=False)
    rule = VisibleField(
        slug_field="name", queryset=AlertRule.objects.all(), allow_null=True, required=False
    )
    cluster = VisibleField(
        slug_field="alias", queryset=Cluster.objects.all(), allow_null=True, required=False
    )
    runner = VisibleField(
        slug_field="name", queryset=Runner.objects.all(), allow_null=True, required=False
    )
    starts_at = serializers.DateTimeField(required=False)

    class Meta:
        model = Silence
        fields = SILENCES.fields
        extra_kwargs = SILENCES.extra_kwargs
        read_only_fields = ("who",)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        now = timezone.now()
        if attrs["ends_at"] <= max(attrs.get("starts_at", now), now):
            words = "It must be after starts_at and in the future."
            raise serializers.ValidationError({"ends_at": [words]})
        if attrs.get("runner") and (attrs.get("flow") or attrs.get("cluster")):
            words = "Give a runner, or a flow or cluster: alerts of a runner belong to no flow."
            raise serializers.ValidationError({"runner": [words]})
        return attrs


class NoteSerializer(StrictSerializer):
    note = serializers.CharField(required=False, allow_blank=True, max_length=500)


class AlertViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Alert]
):
    """Alerts: pending, firing or resolved."""

    queryset = Alert.objects.select_related("rule").order_by("-id")
    serializer_class = AlertSerializer
    write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"
    search_fields = ALERTS.search
    ordering_fields = ("id", "since")
    ordering_aliases: ClassVar = ALERTS.orderings
    filter_fields: ClassVar = {"state": "state", "severity": "severity"}

    @extend_schema(request=NoteSerializer)
    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, pk: str) -> Response:
        """A user works on the alert; channels that had no message yet get none."""
        asked = NoteSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        note = asked.validated_data.get("note", "")
        alert = actions.acknowledge(alert=self.get_object(), who=person(request), note=note)
        return Response(self.get_serializer(alert).data)


class SilenceViewSet(
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.ListModelMixin,
    viewsets.GenericViewSet[Silence],
):
    """Periods without messages for a flow, the flows of a cluster, a runner, a rule, or for all.

    One that begins later is a maintenance window. DELETE ends a silence, or cancels a later one.
    """

    queryset = Silence.objects.select_related("rule", "cluster", "runner").order_by("-id")
    serializer_class = SilenceSerializer
    write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("who", "reason")
    ordering_fields = ("id", "starts_at", "ends_at")
    filter_fields: ClassVar = {"who": "who"}

    def perform_create(self, serializer: Any) -> None:
        demand_here(Silence(**serializer.validated_data))
        facts = serializer.validated_data
        serializer.instance = actions.add_silence(**facts, who=person(self.request))

    def destroy(self, request: Request, pk: str) -> Response:
        actions.end_silence(silence=self.get_object(), now=timezone.now(), who=person(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
