"""REST of the audit: setting changes of a flow, actions on a flow, and all actions."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import mixins, viewsets

from mirrors.api.base import StrictModelSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.domain.access.rights import Right
from mirrors.lists.audit import AUDIT, SETTING_CHANGES
from mirrors.models import Flow, SettingChange, Transition, has_right
from mirrors.models.audit.transitions import by_people, human_transitions, visible_to


class SettingChangeSerializer(StrictModelSerializer):
    """`before` is null if the key was not set, `after` if it no longer is."""

    class Meta:
        model = SettingChange
        fields = SETTING_CHANGES.fields
        extra_kwargs = SETTING_CHANGES.extra_kwargs
        read_only_fields = fields


class SettingChangeViewSet(FlowRelatedViewSet):
    """Every change of the flow's settings, newest first, without secrets."""

    queryset = SettingChange.objects.order_by("-id")
    serializer_class = SettingChangeSerializer
    search_fields = SETTING_CHANGES.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = SETTING_CHANGES.orderings
    filter_fields: ClassVar = {"key": "key", "who": "who"}


_FILTERS = {name: name for name in ("field", "who", "subject", "kind", "result", "reference")}


class ActSerializer(StrictModelSerializer):
    """`address` is empty for everybody except admins and auditors."""

    def to_representation(self, instance: Transition) -> dict[str, Any]:
        found = super().to_representation(instance)
        if not has_right(self.context["request"].user, Right.AUDIT):
            found["address"] = ""
        return dict(found)

    class Meta:
        model = Transition
        fields = AUDIT.fields
        extra_kwargs = AUDIT.extra_kwargs
        read_only_fields = fields


class AuditOfFlowViewSet(FlowRelatedViewSet):
    """Actions of people on the flow and its failovers, with reasons; newest first."""

    queryset = Transition.objects.order_by("-id")
    serializer_class = ActSerializer
    search_fields = AUDIT.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = AUDIT.orderings
    filter_fields: ClassVar = _FILTERS

    def of_parent(self, rows: QuerySet[Any], parent: Flow) -> QuerySet[Any]:
        return human_transitions(parent).order_by("-id")


class AuditViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Transition]):
    """Actions of people on anything, with reasons; newest first."""

    queryset = Transition.objects.order_by("-id")
    serializer_class = ActSerializer
    search_fields = AUDIT.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = AUDIT.orderings
    filter_fields: ClassVar = _FILTERS

    def get_queryset(self) -> QuerySet[Transition]:
        if getattr(self, "swagger_fake_view", False):
            return self.queryset.none()
        return by_people(visible_to(self.queryset.all(), self.request.user))
