"""REST of the audit: setting changes of a flow, actions on a flow, and all actions."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import mixins, viewsets

from mirrors.api.base import StrictModelSerializer
from mirrors.api.viewsets import FlowRelatedViewSet
from mirrors.lists.audit import AUDIT, SETTING_CHANGES
from mirrors.models import Flow, SettingChange, Transition
from mirrors.models.transitions import by_people, human_transitions


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


class ActSerializer(StrictModelSerializer):
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
    filter_fields: ClassVar = {"field": "field", "who": "who", "subject": "subject"}

    def of_parent(self, rows: QuerySet[Any], parent: Flow) -> QuerySet[Any]:
        return human_transitions(parent).order_by("-id")


class AuditViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Transition]):
    """Actions of people on anything, with reasons; newest first."""

    queryset = by_people(Transition.objects.order_by("-id"))
    serializer_class = ActSerializer
    search_fields = AUDIT.search
    ordering_fields = ("id",)
    ordering_aliases: ClassVar = AUDIT.orderings
    filter_fields: ClassVar = {"field": "field", "who": "who", "subject": "subject"}
