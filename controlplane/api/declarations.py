"""REST of declarative files: plan, apply, export."""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.helpers import forced_singular_serializer
from drf_spectacular.utils import extend_schema, extend_schema_serializer
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from controlplane.declarations.changes import (
    Changed,
    Options,
    Plan,
    apply_changes,
    plan_changes,
)
from controlplane.declarations.documents import (
    MAX_TEXT,
    File,
    Problem,
    read_files,
    write_documents,
)
from controlplane.declarations.kinds import KINDS, NAMES
from mirrors.api.base import StrictSerializer
from mirrors.domain.access.rights import Right
from mirrors.services.errors import Conflict


class FileSerializer(StrictSerializer):
    name = serializers.CharField(max_length=500, help_text="Named in sentences.")
    text = serializers.CharField(trim_whitespace=False, allow_blank=True, max_length=MAX_TEXT)


class DeclarationsSerializer(StrictSerializer):
    """A plan without `digest`; the plan's digest applies it."""

    files = FileSerializer(many=True, allow_empty=False)
    digest = serializers.CharField(required=False, max_length=64)
    prune = serializers.CharField(
        default="",
        allow_blank=True,
        max_length=63,
        help_text="A label: its flows without a document are deleted, and their schedules, alert "
        "rules, objectives and prices without one. A flow must be stopped.",
    )
    overwrite_drift = serializers.BooleanField(
        default=False,
        help_text="Also write fields that somebody changed after they were applied.",
    )


class FieldChangeSerializer(StrictSerializer):
    name = serializers.CharField()
    was = serializers.JSONField(allow_null=True)
    becomes = serializers.JSONField(allow_null=True)
    drifted = serializers.BooleanField(
        help_text="Somebody changed it after it was last applied; only with `overwrite_drift`."
    )


@extend_schema_serializer(component_name="ObjectChange")
class ChangeSerializer(StrictSerializer):
    kind = serializers.ChoiceField(choices=NAMES)
    name = serializers.CharField()
    action = serializers.ChoiceField(choices=["create", "change", "delete", "none"])
    where = serializers.CharField(help_text="file:line; of a deleted object label:NAME")
    fields_changed = FieldChangeSerializer(many=True)


class ProblemSerializer(StrictSerializer):
    where = serializers.CharField(help_text="file:line")
    sentence = serializers.CharField()


class DeclarationsAnswer(StrictSerializer):
    digest = serializers.CharField()
    applicable = serializers.BooleanField(help_text="False if there is a problem.")
    applied = serializers.BooleanField()
    changes = ChangeSerializer(many=True)
    problems = ProblemSerializer(many=True)


class LeftOutSerializer(StrictSerializer):
    kind = serializers.ChoiceField(choices=NAMES)
    name = serializers.CharField()
    fields_left_out = serializers.ListField(child=serializers.CharField())
    reason = serializers.CharField()


class ExportedFiles(StrictSerializer):
    files = FileSerializer(many=True)
    left_out = LeftOutSerializer(
        many=True, help_text="What the files lack; their first lines say so too."
    )


class ApplyViewSet(ViewSet):
    """Clusters, flows, runners, channels, hooks, objectives, prices, alert rules, drills as YAML.

    Each document needs the rights of a request to its own address. Applying is one transaction:
    everything, or nothing.
    """

    # The view of each document checks the role that it needs.
    write_right = Right.EDIT

    @extend_schema(responses=forced_singular_serializer(ExportedFiles))
    def list(self, request: Request) -> Response:
        """All objects as one file, which applied again changes nothing.

        `left_out` lists fields that the person may not read.
        """
        documents = [each for kind in KINDS.values() for each in kind.documents(request)]
        missing = [each for kind in KINDS.values() for each in kind.left_out(request)]
        text = write_documents(documents, map(str, missing))
        left_out = [
            {
                "kind": each.kind,
                "name": each.name,
                "fields_left_out": list(each.fields),
                "reason": each.reason,
            }
            for each in missing
        ]
        return Response(
            {"files": [{"name": "understudy.yaml", "text": text}], "left_out": left_out}
        )

    @extend_schema(request=DeclarationsSerializer, responses={200: DeclarationsAnswer})
    def create(self, request: Request) -> Response:
        """What the files change; with `digest` of such an answer, change it."""
        asked = DeclarationsSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        files = [File(**each) for each in asked.validated_data["files"]]
        documents, unreadable = read_files(files, KINDS)
        digest = asked.validated_data.get("digest")
        options = Options(
            prune="" if unreadable else asked.validated_data["prune"],
            overwrite_drift=asked.validated_data["overwrite_drift"],
        )
        if digest is None or unreadable:
            plan = plan_changes(request, documents, options)
            return _answer(plan, unreadable, applied=False)
        try:
            plan = apply_changes(request, documents, options, digest)
        except Changed:
            raise Conflict(
                "The files, or what they change, are not those of the plan. Nothing was applied. "
                "Plan again."
            ) from None
        return _answer(plan, [], applied=not plan.problems)


def _answer(plan: Plan, unreadable: list[Problem], *, applied: bool) -> Response:
    problems = [*unreadable, *plan.problems]
    found: dict[str, Any] = {
        "digest": plan.digest,
        "applicable": not problems,
        "applied": applied,
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "action": change.action,
                "where": change.where,
                "fields_changed": [dataclasses.asdict(field) for field in change.fields],
            }
            for change in plan.changes
        ],
        "problems": [dataclasses.asdict(problem) for problem in problems],
    }
    return Response(found, status=status.HTTP_200_OK)
