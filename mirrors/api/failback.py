"""REST of failbacks: divergence points, orphans of the old primary, the reverse flow."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import (
    FlowField,
    ReasonSerializer,
    StrictModelSerializer,
    StrictSerializer,
    body_of,
    person,
    reason_of,
)
from mirrors.api.failover.serializers import FailoverSerializer
from mirrors.api.viewsets import DecisionMixin, FindingViewSet, FlowRelatedViewSet, RunViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.failback.orphans import DECISIONS
from mirrors.lists.failback import DIVERGENCE, FAILBACKS, ORPHANS
from mirrors.models import Divergence, Failback, FailoverRun, OrphanStretch
from mirrors.models.access.grants import demand_here
from mirrors.services.failback import lifecycle, orphans, switchover
from mirrors.services.failback.application_orphans import request_listing


class DivergenceSerializer(StrictModelSerializer):
    class Meta:
        model = Divergence
        fields = DIVERGENCE.fields
        extra_kwargs = DIVERGENCE.extra_kwargs
        read_only_fields = fields


class OrphanSerializer(StrictModelSerializer):
    """Offsets from `first` to `end`, exclusive; `records` is the number of records among them.

    `certainty` is `counted`, or `at_most` if not all of them could be read.
    """

    class Meta:
        model = OrphanStretch
        fields = ORPHANS.fields
        extra_kwargs = ORPHANS.extra_kwargs
        read_only_fields = fields


class FailbackAskSerializer(StrictSerializer):
    flow = FlowField(
        help_text="The flow that failed over; the failback replicates in the other direction.",
    )
    failover = serializers.PrimaryKeyRelatedField(
        queryset=FailoverRun.objects.all(),
        required=False,
        allow_null=True,
        help_text="A failover of one application of this flow: list only the orphans that it left.",
    )
    reason = serializers.CharField(max_length=500)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        run = attrs.get("failover")
        if run is not None and run.flow_id != attrs["flow"].pk:
            raise serializers.ValidationError({"failover": ["It is not a run of this flow."]})
        return attrs


class PlaceSerializer(StrictSerializer):
    topic = serializers.CharField(max_length=255)
    partition = serializers.IntegerField(min_value=0)


class OrphanDecisionSerializer(StrictSerializer):
    decision = serializers.ChoiceField(choices=list(DECISIONS))
    reason = serializers.CharField(max_length=500)
    partitions = PlaceSerializer(many=True, required=False, allow_null=True)


class GroupsAskSerializer(StrictSerializer):
    act = serializers.BooleanField(
        default=False, help_text="Move idle groups; false only reports where they would resume."
    )


class SwitchAskSerializer(StrictSerializer):
    confirm_alias = serializers.CharField(
        max_length=100, help_text="The alias of the old primary, to which clients move back."
    )
    reason = serializers.CharField(max_length=400)


class FailbackSerializer(StrictModelSerializer):
    flow = serializers.IntegerField(source="flow_id", read_only=True)
    reverse = serializers.IntegerField(source="reverse_id", read_only=True, allow_null=True)
    flow_name = serializers.CharField(source="flow.name", read_only=True)
    asked_reason = serializers.CharField(source="why", read_only=True)
    failover = serializers.IntegerField(
        source="failover_id",
        read_only=True,
        allow_null=True,
        help_text="The failover of one application whose orphans it lists; null for a whole flow.",
    )
    scope = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        read_only=True,
        help_text="Topics and groups of that application; empty for a whole flow.",
    )
    starts = serializers.SerializerMethodField()
    changes = serializers.ListField(child=serializers.CharField(), read_only=True)
    groups = serializers.SerializerMethodField()

    class Meta:
        model = Failback
        fields = FAILBACKS.fields
        extra_kwargs = FAILBACKS.extra_kwargs
        read_only_fields = fields

    @extend_schema_field(serializers.ListField(child=serializers.DictField()))
    def get_starts(self, run: Failback) -> Any:
        return run.starts

    @extend_schema_field(serializers.ListField(child=serializers.DictField()))
    def get_groups(self, run: Failback) -> Any:
        return run.groups


MOST_RECORDS = 1000


class DivergenceViewSet(FlowRelatedViewSet):
    """The divergence point of each partition: where the target took over."""

    queryset = Divergence.objects.order_by("topic", "partition")
    serializer_class = DivergenceSerializer
    search_fields = DIVERGENCE.search
    ordering_fields = ()
    ordering_aliases: ClassVar = DIVERGENCE.orderings
    filter_fields: ClassVar = {"topic": "topic", "mark": "mark"}


class FailbackViewSet(DecisionMixin, RunViewSet):
    """Failbacks after a failover, newest first."""

    decision_serializer = OrphanDecisionSerializer

    queryset = Failback.objects.all()
    serializer_class = run_serializer = FailbackSerializer
    search_fields = ("flow__source__alias", "flow__target__alias", "reason", "requested_by")
    ordering_fields = ("id", "state", "created_at", "ended_at")
    filter_fields: ClassVar = {"state": "state", "flow": "flow"}

    def get_queryset(self) -> QuerySet[Failback]:
        rows = Failback.objects.select_related("flow__source", "flow__target", "reverse")
        return rows.order_by("-id")

    @extend_schema(request=FailbackAskSerializer, responses={201: FailbackSerializer})
    def create(self, request: Request) -> Response:
        """Prepare the reverse flow, list the orphans of the old primary, and start.

        With `failover` it only lists the orphans of that application, and carries out decisions on
        them; it moves no clients. The flow stops while a decision is carried out.
        """
        given, who = body_of(request, FailbackAskSerializer), person(request)
        if (moved := given.get("failover")) is not None:
            return self.created(request_listing(run=moved, who=who, why=given["reason"]))
        demand_here(given["flow"].opposite_subject)
        run = lifecycle.request_failback(flow=given["flow"], who=who, why=given["reason"])
        return self.created(run)

    @extend_schema(request=OrphanDecisionSerializer, responses=FailbackSerializer)
    @action(detail=True, methods=["post"])
    def decide(self, request: Request, pk: str) -> Response:
        """`replay` writes orphans to the new primary once, marked; `export` and `drop` leave them.

        The decision is on the given partitions, or on all undecided ones.
        """
        return self.answer(self.decided(request, self.get_object))

    def store_decision(self, subject: Failback, given: dict[str, Any], who: str) -> Failback:
        named = given.get("partitions")
        orphans.decide(
            run=subject,
            decision=given["decision"],
            partitions=None if named is None else [(p["topic"], p["partition"]) for p in named],
            who=who,
            why=given["reason"],
            now=timezone.now(),
        )
        return subject

    @extend_schema(request=GroupsAskSerializer, responses={202: FailbackSerializer})
    @action(detail=True, methods=["post"])
    def groups(self, request: Request, pk: str) -> Response:
        """Let a worker find the resume offsets; `groups` has them when `groups_at` changes."""
        given, run = body_of(request, GroupsAskSerializer), self.get_object()
        lifecycle.request_groups(run=run, act=given["act"], who=person(request))
        return self.answer(run, status.HTTP_202_ACCEPTED)

    @extend_schema(request=SwitchAskSerializer, responses={201: FailoverSerializer})
    @action(detail=True, methods=["post"])
    def switch(self, request: Request, pk: str) -> Response:
        """Move the clients back: a simulation now, and a switchover when it has succeeded.

        Refused (409) while orphans wait for a decision, or the reverse flow is far behind.
        """
        run = self.get_object()
        demand_here(run.flow.opposite_subject)
        given = body_of(request, SwitchAskSerializer)
        found = switchover.request_switch(
            run=run,
            confirm_alias=given["confirm_alias"],
            who=person(request),
            why=given["reason"],
        )
        return Response(FailoverSerializer(found).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=None, responses=FailbackSerializer)
    @action(detail=True, methods=["post"])
    def retry(self, request: Request, pk: str) -> Response:
        """Retry the preparation after its cause was fixed."""
        return self.answer(lifecycle.retry_failback(run=self.get_object(), who=person(request)))

    @extend_schema(request=ReasonSerializer, responses=FailbackSerializer)
    @action(detail=True, methods=["post"])
    def close(self, request: Request, pk: str) -> Response:
        """Close the failback. The reverse flow keeps running as a normal flow."""
        run, who, why = self.get_object(), person(request), reason_of(request)
        return self.answer(lifecycle.close_failback(run=run, who=who, why=why))


class OrphanViewSet(FindingViewSet):
    """Orphans, records that only the old primary has, by partition."""

    parent = Failback
    parent_field = "failback"
    queryset = OrphanStretch.objects.order_by("topic", "partition")
    serializer_class = OrphanSerializer
    search_fields = ("topic", "reason")
    ordering_fields = ("topic", "partition", "records", "bytes", "state")
    action_rights: ClassVar = {"records": Right.OPERATE}
    filter_fields: ClassVar = {"state": "state", "topic": "topic", "decision": "decision"}

    @extend_schema(
        parameters=[
            OpenApiParameter("from", int, description="Number of records to skip."),
            OpenApiParameter("count", int, description=f"At most {MOST_RECORDS}."),
        ],
        responses=OpenApiTypes.OBJECT,
    )
    @action(detail=True, methods=["get"], filter_backends=[], pagination_class=None)
    def records(self, request: Request, failback_id: str, pk: str) -> Response:
        """The records themselves, for operators; bytes that are not text are in `…_base64`."""
        stretch = get_object_or_404(self.get_queryset(), pk=pk)
        start = _whole(request, "from", 0)
        count = min(_whole(request, "count", 100), MOST_RECORDS)
        found = list(orphans.read_records(stretch=stretch, start=start, count=count))
        following = start + len(found)
        return Response(
            {
                "count": stretch.kept,
                "next_from": following if following < stretch.kept else None,
                "results": found,
            }
        )


def _whole(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return otherwise
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise serializers.ValidationError({name: ["Enter a whole number, 0 or more."]})
    return int(text)
