"""REST of imports (preview, then apply) and of exports."""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from mirrors import tasks
from mirrors.api.base import FlowField, StrictSerializer, person
from mirrors.domain.access.rights import Right
from mirrors.domain.migration.imports.plan import KINDS, ImportPlan
from mirrors.models import Cluster
from mirrors.models.access.grants import showing
from mirrors.services.migration import import_export


class ImportSerializer(StrictSerializer):
    """A preview without `digest`; the preview's digest applies it.

    `leave_out_ignored`: lines that MirrorMaker 2 ignores do not stop the import.
    """

    kind = serializers.ChoiceField(choices=KINDS)
    text = serializers.CharField(trim_whitespace=False)
    digest = serializers.CharField(required=False, max_length=64)
    leave_out_ignored = serializers.BooleanField(default=False)


class LineSerializer(StrictSerializer):
    number = serializers.IntegerField(allow_null=True)
    key = serializers.CharField()
    verdict = serializers.ChoiceField(choices=["used", "defaulted", "different", "unsupported"])
    reason = serializers.CharField()
    ignored = serializers.BooleanField(
        help_text="Unsupported, but MirrorMaker 2 ignores the line: `leave_out_ignored` passes it."
    )


class PlannedFlowSerializer(StrictSerializer):
    name = serializers.CharField()
    properties = serializers.DictField(child=serializers.CharField())


class CreatedSerializer(StrictSerializer):
    clusters = serializers.ListField(child=serializers.CharField())
    reused = serializers.ListField(child=serializers.CharField())
    flows = serializers.ListField(child=serializers.IntegerField())


class ImportAnswer(StrictSerializer):
    digest = serializers.CharField()
    applicable = serializers.BooleanField(help_text="False if a line is unsupported.")
    lines = LineSerializer(many=True)
    clusters = serializers.ListField(child=serializers.DictField())
    flows = PlannedFlowSerializer(many=True)
    unchanged = serializers.ListField(
        child=serializers.CharField(), help_text="Flows that exist with these settings."
    )
    warnings = serializers.ListField(child=serializers.CharField())
    created = CreatedSerializer(allow_null=True)


class ImportViewSet(ViewSet):
    """Import a file of MirrorMaker: preview it, then apply exactly what was previewed."""

    write_right = Right.ADMINISTER

    @extend_schema(request=ImportSerializer, responses={200: ImportAnswer, 201: ImportAnswer})
    def create(self, request: Request) -> Response:
        asked = ImportSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        kind, text = (
            import_export.kind_of(asked.validated_data["kind"]),
            asked.validated_data["text"],
        )
        leave_out = asked.validated_data["leave_out_ignored"]
        plan = import_export.preview_import(kind=kind, text=text, leave_out=leave_out)
        digest = asked.validated_data.get("digest")
        if digest is None:
            return Response(_answer(plan, None))
        made = import_export.apply_import(
            kind=kind, text=text, digest=digest, who=person(request), leave_out=leave_out
        )
        for cluster in Cluster.objects.filter(alias__in=made.clusters):
            tasks.check_cluster.delay_on_commit(cluster.pk)
        return Response(_answer(plan, made), status=status.HTTP_201_CREATED)


def _answer(plan: ImportPlan, made: import_export.Imported | None) -> dict[str, Any]:
    created = None
    if made is not None:
        created = {
            "clusters": made.clusters,
            "reused": made.reused,
            "flows": [flow.pk for flow in made.flows],
        }
    return {
        "digest": plan.digest,
        "applicable": not plan.refused,
        "lines": [dataclasses.asdict(line) for line in plan.lines],
        "clusters": [dataclasses.asdict(spec) for spec in plan.clusters],
        "flows": [{"name": spec.name, "properties": spec.properties} for spec in plan.flows],
        "unchanged": plan.unchanged,
        "warnings": plan.warnings,
        "created": created,
    }


class ExportSerializer(StrictSerializer):
    """`flows` are ids or names; without them, all flows."""

    kind = serializers.ChoiceField(choices=["mm2-properties"], default="mm2-properties")
    flows = serializers.ListField(child=FlowField(), required=False)


class ExportAnswer(StrictSerializer):
    kind = serializers.CharField()
    text = serializers.CharField()


class ExportViewSet(ViewSet):
    """Flows as an equivalent file that MirrorMaker 2 accepts."""

    write_right = Right.VIEW

    @extend_schema(request=ExportSerializer, responses={200: ExportAnswer})
    def create(self, request: Request) -> Response:
        asked = ExportSerializer(data=request.data or {})
        asked.is_valid(raise_exception=True)
        with showing():
            text = import_export.export_flows(flows=asked.validated_data.get("flows"))
        return Response({"kind": asked.validated_data["kind"], "text": text})
