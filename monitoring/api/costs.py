"""REST of costs: the month of each flow, of one flow with topics and advice, and its price."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictModelSerializer, StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.topics.compression import CODEC, LARGE_BATCH_BYTES
from mirrors.models import Flow
from mirrors.models.base import READING_STATES
from monitoring.domain.cost_advice import CODES
from monitoring.domain.costs import cost_of
from monitoring.forecasts import compression, usage
from monitoring.forecasts.advice import advice_of
from monitoring.models import CompressionReading, TransferPrice

_MONEY: dict[str, Any] = {"max_digits": 20, "decimal_places": 6, "allow_null": True}


class CostSerializer(StrictSerializer):
    """A month (UTC) so far. Null: not known, or no price."""

    flow = serializers.IntegerField()
    name = serializers.CharField()
    month = serializers.DateTimeField()
    since = serializers.DateTimeField(
        allow_null=True, help_text="Bytes are known from then on; later than `month`: lower bounds."
    )
    bytes = serializers.IntegerField(help_text="Sent to the target, compressed as they are there.")
    cost = serializers.DecimalField(**_MONEY)
    forecast_bytes = serializers.IntegerField(allow_null=True)
    forecast = serializers.DecimalField(**_MONEY, help_text="At the mean rate so far.")
    budget = serializers.DecimalField(**_MONEY)
    share = serializers.FloatField(
        allow_null=True, help_text="Forecast as a percentage of the budget."
    )
    currency = serializers.CharField(allow_blank=True)


class TopicCostSerializer(StrictSerializer):
    topic = serializers.CharField()
    bytes = serializers.IntegerField()
    cost = serializers.DecimalField(**_MONEY)


class AdviceSerializer(StrictSerializer):
    code = serializers.ChoiceField(choices=CODES)
    topic = serializers.CharField(
        allow_blank=True, help_text="Empty if it is about several topics, or the whole flow."
    )
    sentence = serializers.CharField()
    bytes = serializers.IntegerField(allow_null=True, help_text="Of a month, by the forecast.")
    saves = serializers.DecimalField(**_MONEY)


class CompressionSampleSerializer(StrictSerializer):
    """A sample of a topic's batches on the target, and its size in bytes if built differently."""

    topic = serializers.CharField()
    codec = serializers.CharField(help_text="That of most of the bytes.")
    records = serializers.IntegerField()
    batches = serializers.IntegerField()
    bytes = serializers.IntegerField()
    codec_bytes = serializers.IntegerField(help_text=f"The same batches with {CODEC}.")
    batches_bytes = serializers.IntegerField(
        help_text=f"Batches of {LARGE_BATCH_BYTES:,} bytes before compression, with their codec."
    )
    both_bytes = serializers.IntegerField()


class CompressionReadingSerializer(StrictModelSerializer):
    """The last measurement of the topics that sent the most bytes this month."""

    state = serializers.SerializerMethodField()
    samples = serializers.SerializerMethodField()
    failed = serializers.DictField(
        child=serializers.CharField(), help_text="Why a topic has no sample."
    )

    class Meta:
        model = CompressionReading
        fields = (
            "state",
            "samples",
            "failed",
            "error",
            "requested_by",
            "requested_at",
            "ended_at",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(READING_STATES))
    def get_state(self, row: CompressionReading) -> str:
        return row.state_at(timezone.now())

    @extend_schema_field(CompressionSampleSerializer(many=True))
    def get_samples(self, row: CompressionReading) -> Any:
        return [{"topic": topic, **row.samples[topic]} for topic in sorted(row.samples)]


class FlowCostSerializer(CostSerializer):
    topics = TopicCostSerializer(many=True, help_text="Most bytes first.")
    advice = AdviceSerializer(many=True)
    compression = CompressionReadingSerializer(
        allow_null=True, help_text="Null until somebody requested a measurement."
    )


class PriceSerializer(StrictSerializer):
    """Price of the flow's pair of clusters; null removes it."""

    per_gb = serializers.DecimalField(max_digits=12, decimal_places=6, allow_null=True)
    currency = serializers.CharField(max_length=3, required=False, default="", allow_blank=True)
    monthly_budget = serializers.DecimalField(
        max_digits=14, decimal_places=2, allow_null=True, required=False, default=None
    )


class FlowPriceSerializer(StrictSerializer):
    """Price and budget of the flow's pair of clusters. Null: there is none."""

    flow = serializers.IntegerField(read_only=True)
    per_gb = serializers.DecimalField(
        max_digits=12,
        decimal_places=6,
        allow_null=True,
        required=False,
        normalize_output=True,
        help_text="Of a gigabyte (10^9 bytes). Null removes the price with its budget.",
    )
    currency = serializers.CharField(max_length=3, required=False, allow_blank=True)
    monthly_budget = serializers.DecimalField(
        max_digits=14, decimal_places=2, allow_null=True, required=False, normalize_output=True
    )
    set_by = serializers.CharField(read_only=True)
    set_at = serializers.DateTimeField(read_only=True, allow_null=True)


class CostViewSet(viewsets.GenericViewSet[Any]):
    """What each flow sent this month, and its cost."""

    queryset = Flow.objects.select_related("source", "target").order_by("pk")
    serializer_class = CostSerializer
    search_fields = ("source__alias", "target__alias")
    ordering_fields = ("id",)

    @extend_schema(responses=CostSerializer(many=True))
    def list(self, request: Request) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset())) or []
        found = usage.costs(page, timezone.now())
        rows = [_fields(flow, found[flow.pk]) for flow in page]
        return self.get_paginated_response(CostSerializer(rows, many=True).data)


class FlowCostViewSet(viewsets.ViewSet):
    """The month of one flow, with topics and advice."""

    write_right = Right.ADMINISTER

    @extend_schema(responses=forced_singular_serializer(FlowCostSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        """The month so far by topic, with advice that names its figures."""
        return Response(_detail(_flow(flow_id)))

    @extend_schema(request=PriceSerializer, responses={200: FlowCostSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Set price and budget of the flow's pair of clusters."""
        flow, given = _flow(flow_id), body_of(request, PriceSerializer)
        usage.set_price(
            flow=flow,
            per_gb=given["per_gb"],
            currency=given["currency"],
            budget=given["monthly_budget"],
            who=person(request),
        )
        return Response(_detail(flow))


class FlowPriceViewSet(viewsets.GenericViewSet[TransferPrice]):
    """Price of a gigabyte from the flow's source to its target, and the budget of a month."""

    queryset = TransferPrice.objects.all()
    serializer_class = FlowPriceSerializer
    write_right = Right.ADMINISTER
    pagination_class = None
    filter_backends = ()

    def get_queryset(self) -> QuerySet[TransferPrice]:
        """Prices that belong to a flow; each has its key as `flow`."""
        of_pair = Flow.objects.filter(source=OuterRef("source"), target=OuterRef("target"))
        rows = TransferPrice.objects.annotate(flow=Subquery(of_pair.values("pk")[:1]))
        return rows.filter(flow__isnull=False).order_by("flow")

    @extend_schema(responses=FlowPriceSerializer)
    def retrieve(self, request: Request, flow_id: str) -> Response:
        return self._answer(_flow(flow_id))

    @extend_schema(request=FlowPriceSerializer, responses=FlowPriceSerializer)
    def partial_update(self, request: Request, flow_id: str) -> Response:
        """Change the given fields."""
        flow, given = _flow(flow_id), body_of(request, FlowPriceSerializer)
        known = usage.price_of(flow)
        if known is None and "per_gb" not in given:
            raise InvalidSettings({"per_gb": ["Enter the price of a gigabyte: there is none yet."]})
        if known is not None and given.get("per_gb", known.per_gb) is not None:
            budget = {"monthly_budget": known.budget}
            given = {"per_gb": known.per_gb, "currency": known.currency, **budget, **given}
        usage.set_price(
            flow=flow,
            per_gb=given["per_gb"],
            currency=given.get("currency", ""),
            budget=given.get("monthly_budget"),
            who=person(request),
        )
        return self._answer(flow)

    def destroy(self, request: Request, flow_id: str) -> Response:
        """Remove the price with its budget."""
        flow = _flow(flow_id)
        usage.set_price(flow=flow, per_gb=None, currency="", budget=None, who=person(request))
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _answer(self, flow: Flow) -> Response:
        row = TransferPrice.objects.filter(source=flow.source_id, target=flow.target_id).first()
        facts = ("per_gb", "currency", "monthly_budget", "set_by", "set_at")
        absent: dict[str, Any] = {"currency": "", "set_by": ""}
        body = {name: getattr(row, name, absent.get(name)) for name in facts}
        return Response(FlowPriceSerializer({"flow": flow.pk, **body}).data)


class FlowCompressionViewSet(viewsets.ViewSet):
    """Measures how well the topics of a flow compress."""

    write_right = Right.OPERATE

    @extend_schema(request=None, responses={202: CompressionReadingSerializer})
    def create(self, request: Request, flow_id: str) -> Response:
        """Let a worker measure the ten topics that sent most this month; `cost/` has the answer."""
        reading = compression.request_reading(flow=_flow(flow_id), who=person(request))
        return Response(CompressionReadingSerializer(reading).data, status=status.HTTP_202_ACCEPTED)


def _flow(flow_id: str) -> Flow:
    return get_object_or_404(Flow.objects.select_related("source", "target"), pk=flow_id)


def _fields(flow: Flow, found: Any) -> dict[str, Any]:
    names = ("month", "since", "bytes", "cost", "forecast_bytes", "forecast", "budget", "share")
    fields = {name: getattr(found, name) for name in (*names, "currency")}
    return {"flow": flow.pk, "name": flow.name, **fields}


def _detail(flow: Flow) -> Any:
    now = timezone.now()
    cost = usage.costs([flow], now)[flow.pk]
    used = usage.usage_of(flow, now)
    price = usage.price_of(flow)
    topics = sorted(used.items(), key=lambda row: (-row[1], row[0]))
    rows = [
        {"topic": name, "bytes": count, "cost": cost_of(count, price)} for name, count in topics
    ]
    facts = {
        "topics": rows,
        "advice": advice_of(flow, cost, used, now),
        "compression": CompressionReading.objects.filter(flow=flow).first(),
    }
    return FlowCostSerializer({**_fields(flow, cost), **facts}).data
