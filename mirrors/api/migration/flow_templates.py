"""REST of flow templates: the list, a preview, and the creation of all flows or none."""

from __future__ import annotations

import dataclasses
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import ViewSet

from mirrors import tasks
from mirrors.api.base import PropertiesField, StrictSerializer, person
from mirrors.domain.access.rights import Right
from mirrors.domain.migration.flow_templates import TEMPLATES, TemplatePlan, kind_of
from mirrors.models import Cluster, Flow, Runner
from mirrors.models.flows import DesiredState
from mirrors.services.migration import flow_templates as services


class TemplateAsked(StrictSerializer):
    """A preview without `digest`; the preview's digest creates the flows.

    The first of `clusters` is the active one, the hub, the source or the head of the chain.
    """

    kind = serializers.ChoiceField(choices=list(TEMPLATES))
    clusters = serializers.ListField(child=serializers.CharField(max_length=100), max_length=500)
    properties = PropertiesField(required=False)
    runner = serializers.SlugRelatedField(
        slug_field="name", queryset=Runner.objects.all(), required=False
    )
    desired_state = serializers.ChoiceField(
        choices=[DesiredState.RUNNING, DesiredState.STOPPED], required=False
    )
    digest = serializers.CharField(required=False, max_length=64)

    def validate_clusters(self, aliases: list[str]) -> list[Cluster]:
        known = Cluster.objects.in_bulk(aliases, field_name="alias")
        if unknown := [alias for alias in aliases if alias not in known]:
            raise serializers.ValidationError([f"There is no cluster {', '.join(unknown)}."])
        return [known[alias] for alias in aliases]


class TemplateKindSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    label: Any = serializers.CharField()
    does = serializers.CharField()
    first = serializers.CharField(help_text="The role of the first cluster.")
    others = serializers.CharField(help_text="The role of the others.")


class TemplateFlowSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    problems = serializers.ListField(child=serializers.CharField())
    warnings = serializers.ListField(child=serializers.CharField())


class TemplateAnswer(serializers.Serializer[Any]):
    digest = serializers.CharField()
    applicable = serializers.BooleanField(help_text="False if a flow cannot be created.")
    flows = TemplateFlowSerializer(many=True)
    created = serializers.ListField(child=serializers.IntegerField(), allow_null=True)


class TemplateViewSet(ViewSet):
    """The flows of a pair, a hub, a fan-out or a chain in one call: all or none."""

    write_right = Right.EDIT

    @extend_schema(responses=TemplateKindSerializer(many=True), filters=False)
    def list(self, request: Request) -> Response:
        return Response([dataclasses.asdict(one) for one in TEMPLATES.values()])

    @extend_schema(request=TemplateAsked, responses={200: TemplateAnswer, 201: TemplateAnswer})
    def create(self, request: Request) -> Response:
        asked = TemplateAsked(data=request.data)
        asked.is_valid(raise_exception=True)
        given = dict(asked.validated_data)
        chosen = {
            "kind": kind_of(given["kind"]),
            "clusters": given["clusters"],
            "properties": given.get("properties", {}),
        }
        if (digest := given.get("digest")) is None:
            return Response(_answer(services.preview_template(**chosen), None))
        plan = services.preview_template(**chosen)
        made = services.apply_template(
            **chosen,
            digest=digest,
            runner=given.get("runner"),
            desired_state=given.get("desired_state", DesiredState.STOPPED),
            who=person(request),
        )
        for flow in made:
            tasks.reconcile_flow.delay_on_commit(flow.pk)
        return Response(_answer(plan, made), status=status.HTTP_201_CREATED)


def _answer(plan: TemplatePlan, made: list[Flow] | None) -> dict[str, Any]:
    return {
        "digest": plan.digest,
        "applicable": plan.is_whole,
        "flows": [
            {"name": flow.name, "problems": flow.problems, "warnings": flow.warnings}
            for flow in plan.flows
        ],
        "created": None if made is None else [flow.pk for flow in made],
    }
