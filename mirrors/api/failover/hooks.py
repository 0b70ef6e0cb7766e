"""REST of hooks: addresses that failovers call. Admins make them, flows name them."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import StrictModelSerializer, StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.models import Hook, has_right
from mirrors.services import hooks

_SECRET = ("url", "headers", "secret")


class HookSerializer(StrictModelSerializer):
    """`url`, `headers` and `secret` are empty for everybody except admins."""

    class Meta:
        model = Hook
        fields = ("name", *_SECRET, "changed_by", "changed_at")
        read_only_fields = fields

    def to_representation(self, instance: Hook) -> dict[str, Any]:
        found = dict(super().to_representation(instance))
        if not has_right(self.context["request"].user, Right.ADMINISTER):
            found |= dict.fromkeys(_SECRET, "")
        return found


class HookFactsSerializer(StrictSerializer):
    url = serializers.CharField(max_length=2000, required=False)
    headers = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    secret = serializers.CharField(max_length=500, required=False, allow_blank=True)


class NewHookSerializer(HookFactsSerializer):
    name = serializers.CharField(max_length=64)
    url = serializers.CharField(max_length=2000)


class HookViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[Hook]):
    """Hooks by name."""

    queryset = Hook.objects.order_by("name")
    serializer_class = HookSerializer
    write_right = Right.ADMINISTER
    lookup_field = "name"
    lookup_value_regex = r"[A-Za-z0-9._-]{1,64}"
    ordering_fields = ("name",)

    @extend_schema(request=NewHookSerializer, responses={201: HookSerializer})
    def create(self, request: Request) -> Response:
        facts = body_of(request, NewHookSerializer)
        made = hooks.save_hook(hook=None, facts=facts, who=person(request))
        return Response(self.get_serializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=HookFactsSerializer, responses=HookSerializer)
    def partial_update(self, request: Request, name: str) -> Response:
        row, facts = self.get_object(), body_of(request, HookFactsSerializer)
        done = hooks.save_hook(hook=row, facts=facts, who=person(request))
        return Response(self.get_serializer(done).data)

    def destroy(self, request: Request, name: str) -> Response:
        hooks.delete_hook(hook=self.get_object(), who=person(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
