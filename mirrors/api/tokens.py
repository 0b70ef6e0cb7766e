"""REST of tokens: create one with name and password, list and revoke one's own."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth import authenticate
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework import exceptions, mixins, serializers, status, viewsets
from rest_framework.permissions import AllowAny, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.authentication import RolePermission
from mirrors.api.base import StrictModelSerializer, StrictSerializer
from mirrors.models import Role
from mirrors.services import users


class LoginSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=500, trim_whitespace=False)
    days = serializers.IntegerField(min_value=1, max_value=365, default=90)


class NewTokenSerializer(StrictSerializer):
    token = serializers.CharField(read_only=True)


class TokenSerializer(StrictModelSerializer):
    key = serializers.CharField(source="token_key", read_only=True)

    class Meta:
        model = AuthToken
        fields = ("key", "created", "expiry")
        read_only_fields = fields


class TokenViewSet(
    mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[AuthToken]
):
    """One's own tokens. Only a digest is stored, so only the response to POST shows a token."""

    queryset = AuthToken.objects.order_by("-created")
    serializer_class = TokenSerializer
    lookup_field = "token_key"
    lookup_value_regex = r"[A-Za-z0-9]{1,25}"
    # A viewer may revoke a token: it is their own.
    write_role = Role.VIEWER
    open_actions: ClassVar = {"create"}

    def get_permissions(self) -> list[BasePermission]:
        return [AllowAny()] if self.action in self.open_actions else [RolePermission()]

    def get_queryset(self) -> QuerySet[AuthToken]:
        if getattr(self, "swagger_fake_view", False):
            return self.queryset.none()
        return self.queryset.filter(user=self.request.user)

    def get_authenticators(self) -> list[Any]:
        # Login needs no session, so a stale cookie must not require a CSRF token.
        logging_in = self.request and self.request.method == "POST" and not self.detail
        return [] if logging_in else super().get_authenticators()

    def get_authenticate_header(self, request: Request) -> str:
        # Without authenticators, DRF would answer 403 to a wrong password.
        return "Token"

    @extend_schema(request=LoginSerializer, responses={201: NewTokenSerializer}, auth=[])
    def create(self, request: Request) -> Response:
        asked = LoginSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        user = authenticate(
            request._request, username=given["username"], password=given["password"]
        )
        if user is None:
            raise exceptions.AuthenticationFailed(
                "The name or the password is wrong, or there were too many failed attempts."
            )
        token = users.create_token(username=given["username"], days=given["days"])
        return Response({"token": token}, status=status.HTTP_201_CREATED)
