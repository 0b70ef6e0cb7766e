"""REST of gaps: the lost offsets, and decisions on them."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils import timezone
from drf_spectacular.utils import extend_schema, extend_schema_serializer, extend_schema_view
from rest_framework import serializers

from mirrors.api.base import StrictModelSerializer
from mirrors.api.viewsets import DecisionSerializer, DecisionViewSet
from mirrors.domain.gaps.lost_ranges import CHOICES
from mirrors.lists.gaps import GAPS
from mirrors.models import Gap
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


@extend_schema_serializer(component_name="Decision")
class GapDecisionSerializer(DecisionSerializer):
    choice = serializers.ChoiceField(choices=[lost_ranges.STOP, *CHOICES])


@extend_schema_view(
    decide=extend_schema(
        request=GapDecisionSerializer,
        responses=GapSerializer,
        description="Decide: `stop` waits, `accept` resumes without the loss, `restart` replicates "
        "again.\n\nRefused (409) if it is decided or closed already, or `digest` identifies other "
        "facts.",
    )
)
class GapViewSet(DecisionViewSet):
    """Gaps, newest first. Nothing is skipped until a person decides."""

    queryset = Gap.objects.order_by("-id")
    serializer_class = GapSerializer
    decision_serializer = GapDecisionSerializer
    search_fields = GAPS.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = GAPS.orderings
    filter_fields: ClassVar = {"state": "state", "kind": "kind", "topic": "topic"}

    def store_decision(self, finding: Gap, given: dict[str, Any], who: str) -> Gap:
        return lost_ranges.decide(
            gap=finding,
            choice=given["choice"],
            who=who,
            why=given["reason"],
            shown=given["digest"],
            now=timezone.now(),
        )
