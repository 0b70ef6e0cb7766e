"""REST of the audit: setting changes of a flow, actions on a flow, and all actions."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from rest_framework import mixins, serializers, viewsets

from mirrors.api.base import StrictModelSerializer
from mirrors.api.flow_progress import OfFlow
from mirrors.models import Flow, Transition
from mirrors.models.setting_changes import SettingChange
from mirrors.models.transitions import by_people, human_transitions

_TEXTS = ("who", "subject", "name", "field", "why")


class SettingChangeSerializer(StrictModelSerializer):
    """`before` is null if the key was not set, `after` if it no longer is."""

    class Meta:
        model = SettingChange
        fields = ("id", "when", "who", "generation", "key", "before", "after")
        read_only_fields = fields


class SettingChangeViewSet(OfFlow):
    """Every change of the flow's settings, newest first, without secrets."""

    queryset = SettingChange.objects.order_by("-id")
    serializer_class = SettingChangeSerializer
    search_fields = ("key", "before", "after", "who")
    ordering_fields = ("id", "when", "key", "who", "generation")
    filter_fields: ClassVar = {"key": "key", "who": "who"}


class ActSerializer(StrictModelSerializer):
    class Meta:
        model = Transition
        fields = ("id",)

    def get_fields(self) -> dict[str, serializers.Field]:
        # `from` is a Python keyword, so it cannot be an attribute.
        renamed = {"from": "from_state", "to": "to_state"}
        return {
            "id": serializers.IntegerField(read_only=True),
            "when": serializers.DateTimeField(read_only=True),
            **{name: serializers.CharField(read_only=True) for name in _TEXTS},
            **{
                name: serializers.CharField(read_only=True, source=source)
                for name, source in renamed.items()
            },
        }


class AuditOfFlowViewSet(OfFlow):
    """Actions of people on the flow and its failovers, with reasons; newest first."""

    queryset = Transition.objects.order_by("-id")
    serializer_class = ActSerializer
    search_fields = ("who", "why", "name", "to_state")
    ordering_fields = ("id", "when", "who")
    filter_fields: ClassVar = {"field": "field", "who": "who", "subject": "subject"}

    def of_flow(self, rows: QuerySet[Any], flow: Flow) -> QuerySet[Any]:
        return human_transitions(flow).order_by("-id")


class AuditViewSet(mixins.ListModelMixin, viewsets.GenericViewSet[Transition]):
    """Actions of people on anything, with reasons; newest first."""

    queryset = by_people(Transition.objects.order_by("-id"))
    serializer_class = ActSerializer
    search_fields = ("who", "why", "name", "to_state")
    ordering_fields = ("id", "when", "who", "subject", "name")
    filter_fields: ClassVar = {"field": "field", "who": "who", "subject": "subject"}
