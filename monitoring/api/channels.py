"""REST of channels and of their deliveries."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictModelSerializer
from mirrors.domain.access.rights import Right
from mirrors.outbound_http import check_headers, refusal
from monitoring import tasks
from monitoring.alerts import actions
from monitoring.api.audit import METHODS, AuditedWrites
from monitoring.channels.delivery import with_last_delivery
from monitoring.channels.registry import errors_of
from monitoring.lists import CHANNELS, DELIVERIES
from monitoring.models import Channel, Delivery


class DeliverySerializer(StrictModelSerializer):
    channel: Any = serializers.SlugRelatedField(slug_field="name", read_only=True)
    next_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When the next attempt is due; null: never."
    )

    class Meta:
        model = Delivery
        fields = DELIVERIES.fields
        extra_kwargs = DELIVERIES.extra_kwargs
        read_only_fields = fields


class ChannelSerializer(StrictModelSerializer):
    headers = serializers.DictField(child=serializers.CharField(max_length=1000), required=False)
    last_delivery = serializers.SerializerMethodField(
        help_text="The newest message to this channel, or its newest test; null before the first."
    )

    class Meta:
        model = Channel
        fields = CHANNELS.fields
        extra_kwargs = CHANNELS.extra_kwargs

    @extend_schema_field(DeliverySerializer(allow_null=True))
    def get_last_delivery(self, channel: Channel) -> dict[str, Any] | None:
        [row] = [channel] if hasattr(channel, "last") else with_last_delivery([channel])
        return dict(DeliverySerializer(row.last).data) if row.last else None

    def validate_headers(self, value: dict[str, str]) -> dict[str, str]:
        if sentence := check_headers(value):
            raise serializers.ValidationError(sentence)
        return value

    def validate_secret(self, value: str) -> str:
        if value and (sentence := refusal(value)):
            raise serializers.ValidationError(sentence)
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        fields = ("kind", "target", "secret")
        given = {name: attrs.get(name, getattr(self.instance, name, "")) for name in fields}
        if errors := errors_of(**given):
            raise serializers.ValidationError(errors)
        return attrs


class ChannelViewSet(AuditedWrites, viewsets.ModelViewSet[Channel]):
    """Where alerts are sent. Secrets are references, `env:UNDERSTUDY_NOTIFY_…` or `file:/path`."""

    queryset = Channel.objects.order_by("name")
    serializer_class = ChannelSerializer
    http_method_names = METHODS
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("name", "kind")
    ordering_fields = ("name", "kind", "enabled")
    filter_fields: ClassVar = {"kind": "kind"}
    action_rights: ClassVar = {"test": Right.OPERATE}

    def paginate_queryset(self, queryset: Any) -> list[Any] | None:
        page = super().paginate_queryset(queryset)
        return None if page is None else with_last_delivery(page)

    @extend_schema(request=None, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"])
    def test(self, request: Request, pk: str) -> Response:
        """Send a test message, once. Its outcome is at deliveries/{id}/ within 20 seconds."""
        delivery = actions.request_test(channel=self.get_object(), now=timezone.now())
        tasks.send_one.delay_on_commit(delivery.pk)
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_202_ACCEPTED)


class DeliveryViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[Delivery]
):
    """Messages that are queued, sent, or given up (`?state=dead`)."""

    queryset = Delivery.objects.select_related("channel").order_by("-id")
    serializer_class = DeliverySerializer
    write_right = Right.OPERATE
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("channel__name", "error")
    ordering_fields = ("id", "state", "due_at", "sent_at")
    filter_fields: ClassVar = {"state": "state", "channel": "channel__name", "what": "what"}

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Queue a delivery that was given up again."""
        delivery = get_object_or_404(Delivery, pk=pk)
        if actions.retry(delivery=delivery, now=timezone.now()):
            tasks.send_one.delay_on_commit(delivery.pk)
        delivery.refresh_from_db()
        return Response(self.get_serializer(delivery).data)
