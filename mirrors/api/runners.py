"""REST of runners and of their logs."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.base import StrictModelSerializer, StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.domain.runners.host_drains import STATES as HANDOVER_STATES
from mirrors.domain.runners.pools import STATES as POOL_STATES
from mirrors.lists.runners import RUNNERS
from mirrors.models import Flow, Host, Runner, RunnerLog, has_right
from mirrors.services.flows import moves
from mirrors.services.runners import hosts, logs, pools, settings


class LogSerializer(StrictSerializer):
    """At most 200 lines, oldest first; null and no lines before the first read."""

    written_at = serializers.DateTimeField(read_only=True, allow_null=True)
    lines = serializers.ListField(child=serializers.CharField(), read_only=True)


def answer_with(log: RunnerLog | None) -> Response:
    found = {"written_at": log.written_at if log else None, "lines": log.lines if log else []}
    return Response(LogSerializer(found).data)


class FlowLogViewSet(viewsets.GenericViewSet[Flow]):
    """The runner's last log lines on one flow."""

    queryset = Flow.objects.select_related("source", "target")
    serializer_class = LogSerializer
    read_right = Right.OPERATE
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=forced_singular_serializer(LogSerializer))
    def list(self, request: Request, flow_id: str) -> Response:
        flow = get_object_or_404(self.get_queryset(), pk=flow_id)
        return answer_with(logs.of_flow(flow=flow))


_SETTABLE = frozenset(
    {
        *("name", "master", "slots", "host", "failover_hosts", "spark_ui", "event_log"),
        *("pool", "auto_balance"),
    }
)


class RunnerSerializer(StrictModelSerializer):
    name = serializers.CharField(max_length=63)
    slots = serializers.IntegerField(required=False, min_value=1, max_value=100_000)
    healthy = serializers.SerializerMethodField()
    health_reason = serializers.SerializerMethodField()
    spark_ui_url = serializers.SerializerMethodField()
    spark_warnings = serializers.ListField(child=serializers.CharField(), read_only=True)

    class Meta:
        model = Runner
        fields = RUNNERS.fields
        extra_kwargs = RUNNERS.extra_kwargs
        read_only_fields = tuple(name for name in fields if name not in _SETTABLE)

    def get_healthy(self, runner: Runner) -> bool:
        """Whether it can run its flows, by a report that is not stale."""
        return runner.health(timezone.now()).is_healthy

    def get_spark_ui_url(self, runner: Runner) -> str:
        """Where Spark's UI is, for people who may see the runner's log; empty if it is off."""
        request = self.context.get("request")
        is_allowed = request is not None and has_right(request.user, Right.OPERATE)
        return runner.spark_ui_url if is_allowed else ""

    def get_health_reason(self, runner: Runner) -> str:
        health = runner.health(timezone.now())
        return "" if health.is_healthy else health.reason


class MoveSerializer(StrictSerializer):
    host = serializers.CharField(
        max_length=253, help_text="A host whose worker renews its lease, by its name (`hosts/`)."
    )


class HandoverSerializer(StrictSerializer):
    """What becomes of a runner of a host that is drained."""

    runner = serializers.CharField(read_only=True)
    to = serializers.CharField(read_only=True, help_text="The new host; empty while none is known.")
    state = serializers.ChoiceField(
        choices=HANDOVER_STATES,
        read_only=True,
        help_text=(
            "moves: another host takes it over now. waits: for the runner before it, or its host "
            "failed and another one takes it over. starts: it was handed over; its process starts "
            "there and ends here. stays: no host takes it."
        ),
    )
    reason = serializers.CharField(read_only=True)


class HostSerializer(StrictSerializer):
    """A host: when its worker last renewed its lease, and which runners it serves."""

    name = serializers.CharField(read_only=True)
    renewed_at = serializers.DateTimeField(read_only=True)
    held_since = serializers.DateTimeField(read_only=True)
    is_held = serializers.BooleanField(read_only=True)
    runners = serializers.ListField(child=serializers.CharField(), read_only=True)
    draining_since = serializers.DateTimeField(read_only=True, allow_null=True)
    draining_by = serializers.CharField(read_only=True)
    is_drained = serializers.BooleanField(
        read_only=True,
        help_text="Everything that can be handed over is, and has started on its new host.",
    )
    staying = serializers.IntegerField(
        read_only=True, help_text="Runners that are not handed over: they still run on this host."
    )
    handovers = HandoverSerializer(many=True, read_only=True)


class HostViewSet(viewsets.GenericViewSet[Host]):
    """Hosts whose workers serve runners: those that have a runner or were seen within a day."""

    queryset = Host.objects.order_by("name")
    serializer_class = HostSerializer
    read_right = Right.VIEW
    write_right = Right.ADMINISTER
    lookup_field = "name"
    lookup_value_regex = r"[A-Za-z0-9._-]{1,253}"
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=HostSerializer(many=True))
    def list(self, request: Request) -> Response:
        return Response(HostSerializer(hosts.with_runners(), many=True).data)

    @extend_schema(request=None, responses=HostSerializer)
    @action(detail=True, methods=["post"])
    def drain(self, request: Request, name: str) -> Response:
        """Hand its runners over to other hosts, one after the other, and let it take no new ones.

        `handovers` of the host says what became of each runner; `is_drained` when all is done.
        """
        hosts.drain(name=self.get_object().name, who=person(request))
        return self._shown(name)

    @extend_schema(request=None, responses=HostSerializer)
    @action(detail=True, methods=["post"], url_path="end-drain")
    def end_drain(self, request: Request, name: str) -> Response:
        """Let it take runners again. Nothing moves back."""
        hosts.end_drain(name=self.get_object().name, who=person(request))
        return self._shown(name)

    def _shown(self, name: str) -> Response:
        (row,) = (row for row in hosts.with_runners(also=name) if row.name == name)
        return Response(HostSerializer(row).data)


class PoolMemberSerializer(StrictSerializer):
    """A runner of a pool and what it copies."""

    runner = serializers.CharField(source="row.name", read_only=True)
    host = serializers.CharField(source="row.host", read_only=True)
    state = serializers.CharField(source="row.health_now.state", read_only=True)
    auto_balance = serializers.BooleanField(source="row.auto_balance", read_only=True)
    rss_bytes = serializers.IntegerField(source="row.rss_bytes", read_only=True, allow_null=True)
    uneven_since = serializers.DateTimeField(
        source="row.uneven_since", read_only=True, allow_null=True
    )
    flows = serializers.IntegerField(source="load.flows", read_only=True)
    partitions = serializers.IntegerField(source="load.partitions", read_only=True)
    bytes_per_second = serializers.FloatField(
        source="load.bytes_per_second",
        read_only=True,
        allow_null=True,
        help_text="Of the flows whose rate is known: a lower bound while `unknown` names others; "
        "null while that would be 0.",
    )
    unknown = serializers.ListField(
        source="load.unknown", child=serializers.CharField(), read_only=True
    )
    ratio = serializers.FloatField(
        source="load.ratio",
        read_only=True,
        allow_null=True,
        help_text="Its load relative to an even share; null while it is not compared.",
    )
    refuses = serializers.CharField(
        read_only=True, help_text="Why it accepts no flow; empty if it does."
    )


class PlannedMoveSerializer(StrictSerializer):
    """A move of the plan. The ratios are those of the busiest runner of the pool."""

    flow = serializers.IntegerField(read_only=True)
    name = serializers.CharField(read_only=True)
    before = serializers.CharField(read_only=True)
    to = serializers.CharField(read_only=True)
    before_ratio = serializers.FloatField(read_only=True)
    after_ratio = serializers.FloatField(read_only=True)
    reason = serializers.CharField(read_only=True)


class FlowMoveSerializer(StrictSerializer):
    """A move that was begun. `succeeded` is null while it is under way."""

    flow = serializers.IntegerField(source="flow_id", read_only=True)
    name = serializers.CharField(source="flow.name", read_only=True)
    before = serializers.CharField(read_only=True)
    to = serializers.CharField(read_only=True)
    reason = serializers.CharField(read_only=True)
    requested_by = serializers.CharField(read_only=True)
    requested_at = serializers.DateTimeField(read_only=True)
    moved_at = serializers.DateTimeField(read_only=True, allow_null=True)
    ended_at = serializers.DateTimeField(read_only=True, allow_null=True)
    succeeded = serializers.BooleanField(read_only=True, allow_null=True)
    outcome = serializers.CharField(read_only=True)


class RunnerPoolSerializer(StrictSerializer):
    """A pool: how its flows are distributed over its runners, and which moves pay."""

    name = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(
        choices=POOL_STATES,
        source="verdict.state",
        read_only=True,
        help_text=(
            "alone: fewer than two runners. unknown: fewer than two can be compared. idle: little "
            "is copied. even: no runner is uneven. indivisible: one is, and no move pays. due: "
            "`plan` has the moves that pay. moves: a flow moves now."
        ),
    )
    reason = serializers.CharField(source="verdict.reason", read_only=True)
    ratio = serializers.FloatField(
        source="verdict.ratio",
        read_only=True,
        allow_null=True,
        help_text="Load of the busiest runner relative to an even share.",
    )
    automatic = serializers.CharField(
        source="automatic.reason", read_only=True, help_text="Which flow moves without a person."
    )
    runners = PoolMemberSerializer(source="members", many=True, read_only=True)
    plan = PlannedMoveSerializer(source="verdict.plan", many=True, read_only=True)
    moves = FlowMoveSerializer(many=True, read_only=True)


class RunnerPoolViewSet(viewsets.GenericViewSet[Runner]):
    """Pools of runners, for people who may view everything: flows of all teams share a pool."""

    queryset = Runner.objects.exclude(pool="").order_by("name")
    serializer_class = RunnerPoolSerializer
    read_right = Right.VIEW
    write_right = Right.ADMINISTER
    lookup_field = "name"
    lookup_value_regex = r"[A-Za-z0-9_-]{1,63}"
    pagination_class = None
    filter_backends = ()

    @extend_schema(responses=RunnerPoolSerializer(many=True))
    def list(self, request: Request) -> Response:
        found = pools.list_pools(now=timezone.now())
        return Response(RunnerPoolSerializer(found, many=True).data)

    @extend_schema(request=None, responses=RunnerPoolSerializer)
    @action(detail=True, methods=["post"])
    def balance(self, request: Request, name: str) -> Response:
        """Begin the first move of the plan; it is the newest one of `moves` from then on."""
        if not self.get_queryset().filter(pool=name).exists():
            raise NotFound(f"No runner has the pool {name}.")
        moves.request_next_move(pool=name, who=person(request))
        tasks.balance_pools.delay_on_commit()
        shown = pools.show_pool(name=name, now=timezone.now())
        return Response(RunnerPoolSerializer(shown).data)


class RunnerViewSet(
    mixins.RetrieveModelMixin,
    mixins.ListModelMixin,
    viewsets.GenericViewSet[Runner],
):
    """Spark applications that host flows; started when the first flow needs one."""

    queryset = Runner.objects.order_by("name")
    serializer_class = RunnerSerializer
    read_right = Right.VIEW
    write_right = Right.ADMINISTER
    lookup_field = "name"
    lookup_value_regex = r"[A-Za-z0-9_-]{1,63}"
    search_fields = RUNNERS.search
    ordering_fields = ("since",)
    ordering_aliases: ClassVar = RUNNERS.orderings
    filter_fields: ClassVar = {"state": "state", "host": "host"}

    @extend_schema(responses=LogSerializer)
    @action(detail=True, read_right=Right.OPERATE, filter_backends=[], pagination_class=None)
    def log(self, request: Request, name: str) -> Response:
        """The last lines of its log."""
        return answer_with(logs.of_runner(runner=self.get_object()))

    @extend_schema(request=MoveSerializer)
    @action(detail=True, methods=["post"])
    def move(self, request: Request, name: str) -> Response:
        """Let another host take the runner over; it begins within seconds.

        `host` of the runner changes when it does. A host that does not begin within two minutes
        does not begin later either.
        """
        host = body_of(request, MoveSerializer)["host"]
        runner = hosts.request_move(runner=self.get_object(), host=host, who=person(request))
        return Response(self.get_serializer(runner).data)

    def create(self, request: Request) -> Response:
        asked = self.get_serializer(data=request.data)
        asked.is_valid(raise_exception=True)
        runner = settings.create_runner(**asked.validated_data, who=person(request))
        return Response(self.get_serializer(runner).data, status=status.HTTP_201_CREATED)

    @extend_schema(
        responses={
            204: OpenApiResponse(description="It is deleted."),
            202: OpenApiResponse(description="It is deleted when its process has ended."),
        }
    )
    def destroy(self, request: Request, name: str) -> Response:
        """Delete a runner that hosts no flow. Its process ends first."""
        gone = settings.delete_runner(runner=self.get_object(), who=person(request))
        return Response(status=status.HTTP_204_NO_CONTENT if gone else status.HTTP_202_ACCEPTED)

    def partial_update(self, request: Request, name: str) -> Response:
        runner = self.get_object()
        asked = self.get_serializer(runner, data=request.data, partial=True)
        asked.is_valid(raise_exception=True)
        changes: dict[str, Any] = dict(asked.validated_data)
        if changes.pop("name", runner.name) != runner.name:
            sentence = "A runner's name is its directory, so it cannot change."
            raise serializers.ValidationError({"name": [sentence]})
        runner = settings.update_runner(runner=runner, **changes, who=person(request))
        for flow_id in Flow.objects.filter(runner=runner).values_list("pk", flat=True):
            tasks.reconcile_flow.delay_on_commit(flow_id)
        return Response(self.get_serializer(runner).data)
