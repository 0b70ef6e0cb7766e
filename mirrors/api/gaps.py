"""REST of gaps: the lost offsets, and decisions on them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors import tasks
from mirrors.api.base import StrictModelSerializer, StrictSerializer, person
from mirrors.api.flow_progress import OfFlow
from mirrors.domain.gaps.lost_ranges import CHOICES
from mirrors.lists.gaps import GAPS
from mirrors.models import Gap, Role
from mirrors.services.gaps import lost_ranges


class GapSerializer(StrictModelSerializer):
    """`digest` identifies the facts; `was` and `now` are the ids that differ, if any.

    - `remote_written` (reported only): `remote_first` and `remote_last` are offsets of the remote
      topic, `count` is the number of foreign records there.
    - `remote_truncated`: `remote_first` and `remote_last` are the offsets that the target lost,
      `count` in all. `first_lost` and `last_lost` are the source offsets of these copies; they
      are null while the offset map does not know them.
    - `positions_lost`: the same, of copies whose position the target lost.
    """

    was = serializers.CharField(source="facts.was", read_only=True)
    now = serializers.CharField(source="facts.now", read_only=True)
    remote_first = serializers.SerializerMethodField()
    remote_last = serializers.SerializerMethodField()
    digest = serializers.SerializerMethodField()

    class Meta:
        model = Gap
        fields = GAPS.fields
        extra_kwargs = GAPS.extra_kwargs
        read_only_fields = fields

    def get_remote_first(self, gap: Gap) -> int | None:
        return lost_ranges.remote_offsets(gap)[0]

    def get_remote_last(self, gap: Gap) -> int | None:
        return lost_ranges.remote_offsets(gap)[1]

    def get_digest(self, gap: Gap) -> str:
        return lost_ranges.digest_of(gap)


class DecisionSerializer(StrictSerializer):
    choice = serializers.ChoiceField(choices=[lost_ranges.STOP, *CHOICES])
    reason = serializers.CharField(max_length=500)
    digest = serializers.CharField(required=False, max_length=64, default="")


class GapViewSet(OfFlow):
    """Gaps, newest first. Nothing is skipped until a person decides."""

    queryset = Gap.objects.order_by("-id")
    serializer_class = GapSerializer
    write_role = Role.OPERATOR
    lookup_value_regex = r"\d{1,18}"
    search_fields = GAPS.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = GAPS.orderings
    filter_fields: ClassVar = {"state": "state", "kind": "kind", "topic": "topic"}

    @extend_schema(request=DecisionSerializer, responses=GapSerializer)
    @action(detail=True, methods=["post"], filter_backends=[], pagination_class=None)
    def decide(self, request: Request, flow_id: str, pk: str) -> Response:
        """Decide: `stop` waits, `accept` resumes without the loss, `restart` replicates again.

        Refused (409) if it is decided or closed already, or `digest` identifies other facts.
        """
        asked = DecisionSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given: dict[str, Any] = asked.validated_data
        gap = get_object_or_404(self.get_queryset(), pk=pk)
        gap = lost_ranges.decide(
            gap=gap,
            choice=given["choice"],
            who=person(request),
            why=given["reason"],
            shown=given["digest"],
            now=timezone.now(),
        )
        tasks.reconcile_flow.delay_on_commit(gap.flow_id)
        return Response(GapSerializer(gap).data)
