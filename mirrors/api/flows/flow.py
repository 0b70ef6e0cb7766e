"""REST of flows: create, change, start, stop and the other actions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.account import AccountOfFlow
from mirrors.api.base import (
    PropertiesField,
    ReasonSerializer,
    StrictModelSerializer,
    StrictSerializer,
    VisibleField,
    body_of,
    person,
)
from mirrors.api.drills.readiness import ProofSerializer
from mirrors.api.flows import progress
from mirrors.domain.access.rights import Right
from mirrors.domain.permissions.formats import FORMATS
from mirrors.domain.states.flows import DESIRED
from mirrors.lists.flows import FLOWS
from mirrors.models import Cluster, Flow, Runner
from mirrors.models.access.grants import demand_here
from mirrors.models.account import StoppedPartitions, stopped_of, with_dead_letters, with_repeats
from mirrors.models.clusters import pair_subject
from mirrors.models.drills.readiness import proof_of, with_proof
from mirrors.models.flow_queries import flows_with_lag
from mirrors.models.flows import DesiredState, rules_of, speed_sentences
from mirrors.services import explanation as explain
from mirrors.services.access import grants
from mirrors.services.clock import moment
from mirrors.services.flows import commands, settings
from mirrors.services.permissions import permissions_document


class PermissionSerializer(serializers.Serializer[Any]):
    side = serializers.CharField()
    resource = serializers.CharField()
    name = serializers.CharField()
    pattern = serializers.ChoiceField(choices=["literal", "prefixed"])
    operations = serializers.ListField(child=serializers.CharField())
    why = serializers.CharField(help_text="The feature that uses it.")


class PermissionsOfSideSerializer(serializers.Serializer[Any]):
    side = serializers.ChoiceField(choices=progress.SIDES)
    cluster = serializers.CharField()
    principal = serializers.CharField()
    permissions = PermissionSerializer(many=True)
    text = serializers.CharField(allow_blank=True, help_text="Ready to grant, in the asked form.")


class PermissionsSerializer(serializers.Serializer[Any]):
    flow = serializers.CharField()
    form = serializers.ChoiceField(choices=FORMATS)
    failover = serializers.BooleanField()
    sides = PermissionsOfSideSerializer(many=True)


class StoppedSerializer(StrictModelSerializer):
    stopped_partitions = serializers.SerializerMethodField()
    waiting_records = serializers.SerializerMethodField()
    _known: dict[int, StoppedPartitions] | None = None

    def get_stopped_partitions(self, flow: Flow) -> int:
        """Partitions that stopped alone: a rejected record, data loss."""
        return self._stopped(flow).partitions

    def get_waiting_records(self, flow: Flow) -> int | None:
        """Records not replicated there; none is skipped. Null while an end is unknown."""
        stopped = self._stopped(flow)
        return None if stopped.unknown else stopped.waiting

    def _stopped(self, flow: Flow) -> StoppedPartitions:
        """Read once for all flows of a response."""
        if self._known is None:
            many = isinstance(self.parent, serializers.ListSerializer)
            rows = self.parent.instance if many else [flow]
            self._known = stopped_of([row.pk for row in rows or ()])
        return self._known.get(flow.pk, StoppedPartitions())


_SEEN = ("observed_state", "reason", "since", "generation", "retry_at", "warnings", "as_of")
_ACTIONS: dict[str, Callable[..., Flow]] = {
    DesiredState.RUNNING: commands.start_flow,
    DesiredState.PAUSED: commands.pause_flow,
    DesiredState.STOPPED: commands.stop_flow,
}


class LabelsField(serializers.ListField):
    """The labels of a flow, such as the name of its team, in order."""

    child = serializers.CharField(max_length=63)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": grants.MOST_LABELS, **kwargs})

    def get_attribute(self, instance: Any) -> Any:
        return [label.name for label in instance.labels.all()]


class FlowSerializer(StoppedSerializer, AccountOfFlow):
    source: Any = VisibleField(slug_field="alias", queryset=Cluster.objects.all())
    target = VisibleField(slug_field="alias", queryset=Cluster.objects.all())
    runner = VisibleField(slug_field="name", queryset=Runner.objects.all(), required=False)
    name = serializers.CharField(read_only=True)
    properties = PropertiesField(
        required=False,
        help_text="Keys and values as in MirrorMaker 2. `transforms` is a JSON list of rules in "
        "one line; `transforms` of the flow has them as objects.",
    )
    labels = LabelsField(
        required=False,
        help_text="Grants on a label cover all its flows, so only an admin of the flow sets them. "
        "A new flow without this field has those of the other direction.",
    )
    transforms = serializers.SerializerMethodField()
    desired_state = serializers.ChoiceField(choices=DESIRED.choices, required=False)
    offset_lag = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        default=None,
        help_text="Records not yet replicated; null while `owed.certainty` is at_least or unknown.",
    )
    time_lag_ms = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        default=None,
        help_text=(
            "Age of the oldest record not yet replicated; null while `owed.time_lag_certainty` is "
            "at_least or unknown."
        ),
    )
    repeats = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        default=None,
        help_text="At least once: duplicate records on the target, over all partitions.",
    )
    dead_letters = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        default=None,
        help_text="Records in the dead-letter topic, over all partitions: a rule failed for them.",
    )
    dead_letter_topic = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="Where these records are on the target; null if no rule writes there.",
    )
    proven = serializers.SerializerMethodField()
    start_refusal = serializers.CharField(
        read_only=True,
        help_text=(
            "Why the last start was refused: mirrormaker2, foreign_writer or other_installation; "
            "empty when it was not."
        ),
    )

    speed = serializers.SerializerMethodField()
    packing = serializers.SerializerMethodField()
    latency = serializers.SerializerMethodField()

    class Meta:
        model = Flow
        fields = FLOWS.fields
        read_only_fields = ("id", *_SEEN, "created_at")
        # The service allows one flow for each pair, with a clear error.
        validators = ()

    @extend_schema_field(progress.SpeedSerializer(allow_null=True))
    def get_speed(self, flow: Flow) -> Any:
        """What limits its speed; null while it does not run or its figures are old."""
        speed = flow.current_speed(timezone.now())
        if speed is None:
            return None
        shown = {**dataclasses.asdict(speed), **speed_sentences(flow, speed)}
        return progress.SpeedSerializer(shown).data

    @extend_schema_field(progress.PackingSerializer(allow_null=True))
    def get_packing(self, flow: Flow) -> Any:
        """Null while it does not run or its figures are old."""
        packing = flow.current_packing(timezone.now())
        if packing is None:
            return None
        at = None if packing.packed_at is None else moment(packing.packed_at)
        return progress.PackingSerializer({**vars(packing), "packed_at": at}).data

    @extend_schema_field(progress.LatencySerializer(allow_null=True))
    def get_latency(self, flow: Flow) -> Any:
        """Null if no record was committed in the last minute, or if the figures are old."""
        account = getattr(flow, "account", None)
        return account and progress.latency_fields(account.latency, account.as_of)

    @extend_schema_field(progress.TransformRuleSerializer(many=True))
    def get_transforms(self, flow: Flow) -> list[dict[str, Any]]:
        """The rules that drop and change its records; to change them, write the property."""
        return rules_of(flow)

    @extend_schema_field(ProofSerializer(allow_null=True))
    def get_proven(self, flow: Flow) -> Any:
        """Set when reading; null in the response to a change."""
        if not hasattr(flow, "proven_at"):
            return None
        return ProofSerializer(proof_of(flow, timezone.now())).data


class EditSerializer(FlowSerializer):
    """The changeable fields of a flow; its clusters are its identity."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        flow: Flow = self.instance  # type: ignore[assignment]
        errors = {
            name: [f"A flow's {name} cannot change. Create another flow instead."]
            for name in ("source", "target")
            if attrs.pop(name, getattr(flow, name)) != getattr(flow, name)
        }
        if errors:
            raise serializers.ValidationError(errors)
        return attrs


class LabelsSerializer(StrictSerializer):
    labels = LabelsField()


class StartSerializer(ReasonSerializer):
    accept_other_writers = serializers.BooleanField(
        default=False,
        help_text="Start although another program writes the same remote topics; recorded.",
    )


class FlowViewSet(viewsets.ModelViewSet[Flow]):
    """Flows: one ordered pair of clusters each, with MirrorMaker 2's own settings."""

    queryset = Flow.objects.all()
    serializer_class = FlowSerializer
    write_right = Right.OPERATE
    action_rights: ClassVar = {
        **dict.fromkeys(("create", "partial_update", "destroy", "preview"), Right.EDIT),
        "labels": Right.ADMINISTER,
    }
    http_method_names = ["get", "post", "patch", "delete", "head", "options"]  # noqa: RUF012
    lookup_value_regex = r"\d{1,18}|[A-Za-z0-9._-]{1,100}->[A-Za-z0-9._-]{1,100}"
    search_fields = ("source__alias", "target__alias", "reason")
    ordering_fields = (
        "id",
        "desired_state",
        "observed_state",
        "since",
        "offset_lag",
        "time_lag_ms",
    )
    ordering_aliases: ClassVar = {
        "name": ("source__alias", "target__alias"),
        "source": ("source__alias",),
        "target": ("target__alias",),
        "runner": ("runner__name",),
        "latency": ("account__latency__3",),
    }
    filter_fields: ClassVar = {
        "source": "source__alias",
        "target": "target__alias",
        "runner": "runner__name",
        "label": "labels__name",
        "desired_state": "desired_state",
        "observed_state": "observed_state",
    }

    def get_queryset(self) -> QuerySet[Flow]:
        if self.action in {"list", "retrieve"}:
            rows = with_dead_letters(with_repeats(with_proof(flows_with_lag())))
        else:
            rows = Flow.objects.select_related("source", "target", "runner")
        return rows.prefetch_related("labels").order_by("id")

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        asked = self.get_serializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = {"properties": {}, **asked.validated_data}
        pair = pair_subject(given["source"], given["target"])
        demand_here(pair)
        if given.get("desired_state") != DesiredState.STOPPED:
            demand_here(pair, Right.OPERATE)
        labels = given.pop("labels", None)
        if labels is not None:
            demand_here(pair, Right.ADMINISTER)
        with transaction.atomic():
            flow = settings.create_flow(**given, who=person(request))
            if labels is not None:
                grants.set_labels(flow=flow, names=labels, who=person(request))
        return self._changed(flow, status.HTTP_201_CREATED)

    @extend_schema(request=EditSerializer)
    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        flow = self.get_object()
        changes = self._edit(flow, request)
        desired, labels = changes.pop("desired_state", None), changes.pop("labels", None)
        if desired is not None and desired != flow.desired_state:
            demand_here(flow, Right.OPERATE)
        if grants.labels_change(flow=flow, names=labels):
            demand_here(flow, Right.ADMINISTER)
        with transaction.atomic():
            if labels is not None:
                grants.set_labels(flow=flow, names=labels, who=person(request))
            flow = settings.update_flow(flow=flow, **changes, who=person(request))
            if desired is not None and desired != flow.desired_state:
                flow = _ACTIONS[desired](flow=flow, who=person(request))
        return self._changed(flow)

    @extend_schema(request=EditSerializer, responses=progress.PreviewSerializer)
    @action(detail=True, methods=["post"])
    def preview(self, request: Request, pk: str) -> Response:
        """What a PATCH with the same body would change and restart; changes nothing."""
        flow = self.get_object()
        changes = self._edit(flow, request)
        changes.pop("desired_state", None)
        labels = changes.pop("labels", None)
        found = settings.preview_update(flow=flow, **changes)
        if change := grants.labels_change(flow=flow, names=labels):
            demand_here(flow, Right.ADMINISTER)
            found = dataclasses.replace(found, changes=(*found.changes, change))
        return Response(dataclasses.asdict(found))

    def perform_destroy(self, instance: Flow) -> None:
        settings.delete_flow(flow=instance, who=person(self.request))

    def _edit(self, flow: Flow, request: Request) -> dict[str, Any]:
        asked = EditSerializer(
            flow, data=request.data, partial=True, context=self.get_serializer_context()
        )
        asked.is_valid(raise_exception=True)
        return dict(asked.validated_data)

    def _changed(self, flow: Flow, code: int = status.HTTP_200_OK) -> Response:
        tasks.reconcile_flow.delay_on_commit(flow.pk)
        return Response(self.get_serializer(flow).data, status=code)

    def _act(self, act: Callable[..., Flow], request: Request, why: str | None = None) -> Response:
        if why is None:
            asked = ReasonSerializer(data=request.data or {})
            asked.is_valid(raise_exception=True)
            why = asked.validated_data.get("reason", "")
        flow = self.get_object()
        changed = act(flow=flow, who=person(request), why=why)
        if changed.pk != flow.pk:
            tasks.reconcile_flow.delay_on_commit(flow.pk)
        return self._changed(changed)

    @extend_schema(request=StartSerializer)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: str) -> Response:
        """Start. Refused (409) if it is started already.

        The first start checks whether another program, such as MirrorMaker 2, writes the same
        remote topics. If so, the flow ends in `failed`: `reason` and `start_refusal` say why.
        """
        asked = StartSerializer(data=request.data or {})
        asked.is_valid(raise_exception=True)
        accept = asked.validated_data["accept_other_writers"]
        act = functools.partial(commands.start_flow, accept_other_writers=accept)
        return self._act(act, request, asked.validated_data.get("reason", ""))

    @extend_schema(request=LabelsSerializer, responses=LabelsSerializer)
    @action(detail=True, methods=["post"])
    def labels(self, request: Request, pk: str) -> Response:
        """Set exactly these labels, such as the name of a team; grants on them cover the flow."""
        names = body_of(request, LabelsSerializer)["labels"]
        held = grants.set_labels(flow=self.get_object(), names=names, who=person(request))
        return Response({"labels": held})

    @extend_schema(request=ReasonSerializer)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        """Stop replicating, but keep the flow's slots in the runner."""
        return self._act(commands.pause_flow, request)

    @extend_schema(request=ReasonSerializer)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        """Resume after a pause."""
        return self._act(commands.resume_flow, request)

    @extend_schema(request=ReasonSerializer)
    @action(detail=True, methods=["post"])
    def stop(self, request: Request, pk: str) -> Response:
        """Commit and leave the runner."""
        return self._act(commands.stop_flow, request)

    @extend_schema(request=ReasonSerializer)
    @action(detail=True, methods=["post"])
    def restart(self, request: Request, pk: str) -> Response:
        """End the job at a commit and start another."""
        return self._act(commands.restart_flow, request)

    @extend_schema(request=ReasonSerializer)
    @action(detail=True, methods=["post"])
    def reverse(self, request: Request, pk: str) -> Response:
        """Stop this flow and start the reverse one, which is the response."""
        demand_here(self.get_object().opposite_subject)
        return self._act(commands.reverse_flow, request)

    @extend_schema(
        parameters=[OpenApiParameter("topic"), OpenApiParameter("group")],
        responses=progress.ExplanationSerializer,
    )
    @action(detail=True, filter_backends=[], pagination_class=None)
    def explain(self, request: Request, pk: str) -> Response:
        """Why a topic is replicated or a group synchronized, or not: rule by rule."""
        topic, group = (request.query_params.get(name, "") for name in ("topic", "group"))
        name = topic or group
        if not 1 <= len(name) <= 1000 or "\0" in name or (topic and group):
            sentence = "Enter one topic or group: ?topic=NAME or ?group=NAME."
            raise serializers.ValidationError({"topic": [sentence]})
        flow = self.get_object()
        if group:
            now = timezone.now()
            return Response(explain.explain_group_of(flow=flow, group=group, now=now))
        return Response(explain.explain_topic_of(flow=flow, topic=topic))

    @extend_schema(
        parameters=[
            OpenApiParameter("form", enum=FORMATS),
            OpenApiParameter(
                "failover", bool, description="Include the permissions that a failover needs."
            ),
        ],
        responses=PermissionsSerializer,
    )
    @action(detail=True, filter_backends=[], pagination_class=None)
    def permissions(self, request: Request, pk: str) -> Response:
        """The least Kafka permissions of this flow on both clusters, ready to grant."""
        given = request.query_params
        document = permissions_document(
            flow=self.get_object(),
            form=given.get("form", FORMATS[0]),
            failover=given.get("failover", "").lower() in ("1", "true"),
        )
        return Response(document)
