"""REST of alerts, their rules, channels, silences and what was sent."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.shapes import StrictModelSerializer, StrictSerializer, person
from mirrors.models import Flow, Role
from monitoring import tasks, wishes
from monitoring.addresses import check_headers, check_target, refusal
from monitoring.domain.alerts import KINDS
from monitoring.models import Alert, AlertRule, Channel, ChannelKind, Delivery, Silence

# Beyond any lag, and far from what JSON cannot say.
_LARGEST = 1e15
_HTTP = ["get", "post", "patch", "delete", "head", "options"]


class RuleSerializer(StrictModelSerializer):
    flow = serializers.PrimaryKeyRelatedField(
        queryset=Flow.objects.all(), allow_null=True, required=False
    )
    labels = serializers.DictField(child=serializers.CharField(max_length=200), required=False)
    channels = serializers.SlugRelatedField(
        slug_field="name", queryset=Channel.objects.all(), many=True, required=False
    )
    runbook = serializers.URLField(required=False, allow_blank=True, max_length=500)
    threshold = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=_LARGEST
    )
    clear_below = serializers.FloatField(
        required=False, allow_null=True, min_value=0, max_value=_LARGEST
    )
    for_seconds = serializers.IntegerField(required=False, min_value=0, max_value=86_400)

    class Meta:
        model = AlertRule
        fields = (
            "id",
            "name",
            "kind",
            "flow",
            "threshold",
            "clear_below",
            "for_seconds",
            "severity",
            "enabled",
            "runbook",
            "labels",
            "channels",
        )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        def asked(name: str) -> Any:
            return attrs.get(name, getattr(self.instance, name, None))

        errors = {}
        unit = KINDS[asked("kind")][1]
        if unit and asked("threshold") is None:
            errors["threshold"] = [f"This kind needs a threshold in {unit}."]
        clear = asked("clear_below")
        if clear is not None and asked("threshold") is not None and clear > asked("threshold"):
            errors["clear_below"] = ["It clears at or below the threshold, not above it."]
        if errors:
            raise serializers.ValidationError(errors)
        return attrs


class ChannelSerializer(StrictModelSerializer):
    headers = serializers.DictField(child=serializers.CharField(max_length=1000), required=False)

    class Meta:
        model = Channel
        fields = ("id", "name", "kind", "target", "secret", "headers", "enabled")

    def validate_headers(self, value: dict[str, str]) -> dict[str, str]:
        if sentence := check_headers(value):
            raise serializers.ValidationError(sentence)
        return value

    def validate_secret(self, value: str) -> str:
        if value and (sentence := refusal(value)):
            raise serializers.ValidationError(sentence)
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        kind = attrs.get("kind", getattr(self.instance, "kind", ""))
        target = attrs.get("target", getattr(self.instance, "target", ""))
        if sentence := check_target(kind, target):
            raise serializers.ValidationError({"target": [sentence]})
        secret = attrs.get("secret", getattr(self.instance, "secret", ""))
        if kind == ChannelKind.PAGERDUTY and not secret:
            sentence = "PagerDuty needs the routing key of its service, as a reference."
            raise serializers.ValidationError({"secret": [sentence]})
        return attrs


class AlertSerializer(StrictModelSerializer):
    rule = serializers.CharField(source="rule_name", read_only=True)

    class Meta:
        model = Alert
        fields = (
            "id",
            "rule",
            "subject",
            "subject_name",
            "flow",
            "severity",
            "state",
            "value",
            "sentence",
            "since",
            "fired_at",
            "told_at",
            "resolved_at",
            "acknowledged_at",
            "acknowledged_by",
            "note",
        )
        read_only_fields = fields


class SilenceSerializer(StrictModelSerializer):
    flow = serializers.PrimaryKeyRelatedField(
        queryset=Flow.objects.all(), allow_null=True, required=False
    )
    rule = serializers.SlugRelatedField(
        slug_field="name", queryset=AlertRule.objects.all(), allow_null=True, required=False
    )
    starts_at = serializers.DateTimeField(required=False)

    class Meta:
        model = Silence
        fields = ("id", "flow", "rule", "starts_at", "ends_at", "who", "reason")
        read_only_fields = ("who",)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["ends_at"] <= attrs.get("starts_at", timezone.now()):
            raise serializers.ValidationError({"ends_at": ["It ends after it starts."]})
        return attrs


class DeliverySerializer(StrictModelSerializer):
    channel: Any = serializers.SlugRelatedField(slug_field="name", read_only=True)

    class Meta:
        model = Delivery
        fields = (
            "id",
            "alert",
            "channel",
            "what",
            "key",
            "state",
            "attempt",
            "due_at",
            "sent_at",
            "error",
            "created_at",
        )
        read_only_fields = fields


class NoteSerializer(StrictSerializer):
    note = serializers.CharField(required=False, allow_blank=True, max_length=500)


class AlertViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Alert]
):
    """What is wrong and what was: pending, firing or resolved."""

    queryset = Alert.objects.order_by("-id")
    serializer_class = AlertSerializer
    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("rule_name", "subject_name", "sentence")
    ordering_fields = ("id", "severity", "state", "since", "fired_at", "resolved_at")
    filter_fields: ClassVar = {"state": "state", "severity": "severity"}

    @extend_schema(request=NoteSerializer)
    @action(detail=True, methods=["post"])
    def acknowledge(self, request: Request, pk: str) -> Response:
        """Somebody has seen it: nobody else is told of it for the first time."""
        asked = NoteSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        note = asked.validated_data.get("note", "")
        alert = wishes.acknowledge(alert=self.get_object(), who=person(request), note=note)
        return Response(self.get_serializer(alert).data)


class RuleViewSet(viewsets.ModelViewSet[AlertRule]):
    """When to call somebody; a rule without a flow is for every flow, also for tomorrow's."""

    queryset = AlertRule.objects.prefetch_related("channels").order_by("name")
    serializer_class = RuleSerializer
    write_role = Role.OPERATOR
    http_method_names = _HTTP
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("name",)
    ordering_fields = ("name", "kind", "severity", "enabled")
    filter_fields: ClassVar = {"kind": "kind", "severity": "severity"}


class ChannelViewSet(viewsets.ModelViewSet[Channel]):
    """Where alerts are told. Secrets are references, `env:UNDERSTUDY_NOTIFY_…` or `file:/path`."""

    queryset = Channel.objects.order_by("name")
    serializer_class = ChannelSerializer
    http_method_names = _HTTP
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("name", "kind")
    ordering_fields = ("name", "kind", "enabled")
    filter_fields: ClassVar = {"kind": "kind"}

    @property
    def write_role(self) -> Role:
        return Role.OPERATOR if self.action == "test" else Role.ADMIN

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send a test; what came of it is at deliveries/{id}/."""
        delivery = wishes.request_test(channel=self.get_object(), now=timezone.now())
        tasks.send_one.delay_on_commit(delivery.pk)
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_202_ACCEPTED)


class SilenceViewSet(
    mixins.CreateModelMixin,
    mixins.RetrieveModelMixin,
    mixins.ListModelMixin,
    viewsets.GenericViewSet[Silence],
):
    """From when to when nothing is sent of a flow, of a rule, or of all. DELETE ends one now."""

    queryset = Silence.objects.select_related("rule").order_by("-id")
    serializer_class = SilenceSerializer
    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("who", "reason")
    ordering_fields = ("id", "starts_at", "ends_at")
    filter_fields: ClassVar = {"who": "who"}

    def perform_create(self, serializer: Any) -> None:
        serializer.save(who=person(self.request))

    def destroy(self, request: Request, pk: str) -> Response:
        wishes.end_silence(silence=self.get_object(), now=timezone.now())
        return Response(status=status.HTTP_204_NO_CONTENT)


class DeliveryViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Delivery]
):
    """What was told, is being told, or was given up (`?state=dead`)."""

    queryset = Delivery.objects.select_related("channel").order_by("-id")
    serializer_class = DeliverySerializer
    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("channel__name", "error")
    ordering_fields = ("id", "state", "due_at", "sent_at")
    filter_fields: ClassVar = {"state": "state", "channel": "channel__name", "what": "what"}

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Try once more what was given up."""
        delivery = get_object_or_404(Delivery, pk=pk)
        if wishes.retry(delivery=delivery, now=timezone.now()):
            tasks.send_one.delay_on_commit(delivery.pk)
        delivery.refresh_from_db()
        return Response(self.get_serializer(delivery).data)
