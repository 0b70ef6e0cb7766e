"""REST of grants: roles on everything, a cluster, a flow or a label. For admins of everything."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import User
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.base import FlowField, StrictModelSerializer, StrictSerializer, body_of, person
from mirrors.domain.access.rights import Right
from mirrors.lists.people import GRANTS
from mirrors.models import AccessGrant, Cluster
from mirrors.models.access.grants import ROLE_CHOICES, SCOPE_CHOICES
from mirrors.services.access import grants


class GrantSerializer(StrictModelSerializer):
    """Of a person (`username`) or of a group at the sign-in (`group`)."""

    username = serializers.CharField(source="user.username", allow_null=True, default=None)
    cluster = serializers.CharField(source="cluster.alias", allow_null=True, default=None)
    flow = serializers.IntegerField(source="flow_id", allow_null=True)

    class Meta:
        model = AccessGrant
        fields = GRANTS.fields
        read_only_fields = fields


class NewGrantSerializer(StrictSerializer):
    username: Any = serializers.SlugRelatedField(
        slug_field="username", queryset=User.objects.all(), required=False, allow_null=True
    )
    group = serializers.CharField(max_length=255, required=False, allow_blank=True)
    role = serializers.ChoiceField(choices=ROLE_CHOICES)
    scope = serializers.ChoiceField(choices=SCOPE_CHOICES)
    cluster: Any = serializers.SlugRelatedField(
        slug_field="alias", queryset=Cluster.objects.all(), required=False, allow_null=True
    )
    flow = FlowField(required=False, allow_null=True)
    label: Any = serializers.CharField(max_length=63, required=False, allow_blank=True)


class GrantViewSet(
    mixins.RetrieveModelMixin, mixins.ListModelMixin, viewsets.GenericViewSet[AccessGrant]
):
    """Grants, oldest first. DELETE takes one; the next request of the person is without it."""

    queryset = AccessGrant.objects.select_related("user", "cluster").order_by("id")
    serializer_class = GrantSerializer
    read_right = write_right = Right.ADMINISTER
    lookup_value_regex = r"\d{1,18}"
    search_fields = GRANTS.search
    ordering_fields = ("id", "role", "scope")
    filter_fields: ClassVar = {
        "username": "user__username",
        **{name: name for name in ("group", "role", "scope", "label")},
    }

    @extend_schema(request=NewGrantSerializer, responses={201: GrantSerializer})
    def create(self, request: Request) -> Response:
        """Give a role to a person or to a group, on the part that `scope` names."""
        given = body_of(request, NewGrantSerializer)
        user = given.pop("username", None)
        row = grants.give_grant(user=user, **given, who=person(request))
        return Response(self.get_serializer(row).data, status=status.HTTP_201_CREATED)

    def destroy(self, request: Request, pk: str) -> Response:
        grants.take_grant(grant=self.get_object(), who=person(request))
        return Response(status=status.HTTP_204_NO_CONTENT)
