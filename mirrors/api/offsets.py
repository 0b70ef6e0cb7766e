"""REST of offset translation, for offsets or for a consumer group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import FlowField, StrictSerializer
from mirrors.domain.access.rights import Right
from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.offsets.translation import Translation
from mirrors.domain.replication_policy import policy_for
from mirrors.models import Flow
from mirrors.services.offsets import index_refresh

MOST = 10_000
LARGEST = 2**63 - 1
_FIELDS = {"topic", "partition", "offset"}
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@extend_schema_serializer(component_name="OffsetPlace")
class PlaceSerializer(StrictSerializer):
    topic = serializers.CharField(max_length=249)
    partition = serializers.IntegerField(min_value=0, max_value=2**31 - 1)
    offset = serializers.IntegerField(min_value=0, max_value=LARGEST)


class PlacesField(serializers.ListField):
    """Thousands of partitions: valid ones pass quickly, others are validated one by one."""

    child = PlaceSerializer()

    def run_child_validation(self, data: list[Any]) -> list[Any]:
        if all(map(_is_plain, data)):
            return data
        return super().run_child_validation(data)


def _is_plain(row: Any) -> bool:
    """Whether the serializer of one partition would accept it unchanged."""
    if not isinstance(row, dict) or row.keys() != _FIELDS:
        return False
    topic, partition, offset = row["topic"], row["partition"], row["offset"]
    return (
        isinstance(topic, str)
        and _PLAIN_NAME.fullmatch(topic) is not None
        and type(partition) is int
        and 0 <= partition < 2**31
        and type(offset) is int
        and 0 <= offset <= LARGEST
    )


class QuestionSerializer(StrictSerializer):
    """A translation request: either `offsets` or `group`."""

    flow = FlowField()
    offsets = PlacesField(required=False, max_length=MOST)
    group = serializers.CharField(required=False, max_length=255)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("offsets" in attrs) == ("group" in attrs):
            sentence = "Enter either `offsets` or `group`."
            raise serializers.ValidationError({"offsets": [sentence]})
        return attrs


class AnswerSerializer(serializers.Serializer[Any]):
    topic = serializers.CharField()
    partition = serializers.IntegerField()
    offset = serializers.IntegerField(allow_null=True)
    remote_topic = serializers.CharField()
    downstream_offset = serializers.IntegerField(allow_null=True)
    outcome = serializers.ChoiceField(choices=["exact", "gap", "ahead", "lower_bound", "unknown"])
    re_reads = serializers.IntegerField(
        allow_null=True,
        help_text="Upper bound of duplicates; null if unknown.",
    )
    reason = serializers.CharField(allow_blank=True)


class AnswersSerializer(serializers.Serializer[Any]):
    offsets = AnswerSerializer(many=True)


class OffsetViewSet(viewsets.GenericViewSet[Any]):
    """Exact translation of offsets. It changes nothing, so viewers may use it."""

    serializer_class = QuestionSerializer
    queryset = Flow.objects.none()
    pagination_class = None
    filter_backends = ()
    write_right = Right.VIEW

    @extend_schema(request=QuestionSerializer, responses=AnswersSerializer)
    @action(detail=False, methods=["post"])
    def translate(self, request: Request) -> Response:
        """Translate upstream offsets to downstream ones, each with its outcome and reason.

        - `exact`: the record itself, or the end of the copy.
        - `gap`: the record was never replicated, so the next one that was.
        - `ahead`: the group has read records that are not replicated yet, and reads them again.
        - `lower_bound`: MirrorMaker 2 replicated it before this flow. Its copy is at this offset or
          later, so no record is skipped; at most `re_reads` are duplicates.
        - `unknown`: there is no offset map here.
        """
        question = QuestionSerializer(data=request.data)
        question.is_valid(raise_exception=True)
        flow, group = question.validated_data["flow"], question.validated_data.get("group")
        if group is not None:
            rows = list(_of_group(flow, group))
        else:
            rows = list(_of_offsets(flow, question.validated_data["offsets"]))
        return Response({"offsets": rows})


def _of_offsets(flow: Flow, asked: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Answers in the order of the request."""
    wanted = [((row["topic"], row["partition"]), row["offset"]) for row in asked]
    partitions: dict[TopicPartition, list[int]] = {}
    for tp, offset in wanted:
        partitions.setdefault(tp, []).append(offset)
    found = index_refresh.refresh_and_translate(flow=flow, partitions=partitions)
    answers = {tp: iter(rows) for tp, rows in found.items()}
    names = _Names(flow)
    for tp, _ in wanted:
        yield names.row(tp, next(answers[tp]))


def _of_group(flow: Flow, group: str) -> Iterator[dict[str, Any]]:
    partitions, unread = index_refresh.partitions_of_group(flow=flow, group=group)
    found = index_refresh.refresh_and_translate(flow=flow, partitions=partitions)
    names = _Names(flow)
    for tp, (answer,) in found.items():
        yield names.row(tp, answer)
    for tp, reason in unread.items():
        answer = Translation(upstream=-1, downstream=None, outcome="unknown", reason=reason)
        yield {**names.row(tp, answer), "offset": None}


class _Names:
    """Remote names by the flow's policy."""

    def __init__(self, flow: Flow) -> None:
        settings = flow.spec.settings
        self._policy = policy_for(settings, flow.source.alias, flow.target.alias)

    def row(self, tp: TopicPartition, answer: Translation) -> dict[str, Any]:
        topic, partition = tp
        return {
            "topic": topic,
            "partition": partition,
            "offset": answer.upstream,
            "remote_topic": self._policy.remote_topic(topic),
            "downstream_offset": answer.downstream,
            "outcome": answer.outcome,
            "re_reads": None if answer.outcome in ("ahead", "unknown") else answer.re_reads,
            "reason": answer.reason,
        }
