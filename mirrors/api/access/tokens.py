"""REST of tokens: create one with name and password, list and revoke one's own."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth import authenticate
from django.contrib.auth.signals import user_login_failed
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework import exceptions, mixins, serializers, status, viewsets
from rest_framework.permissions import AllowAny, BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.access.authentication import RolePermission
from mirrors.api.base import StrictModelSerializer, StrictSerializer
from mirrors.domain.access.rights import Right
from mirrors.models import Scope
from mirrors.services import one_time_codes, users


class LoginSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=500, trim_whitespace=False)
    code = serializers.CharField(
        max_length=40,
        allow_blank=True,
        default="",
        help_text="With one-time codes: the code of this moment, or a recovery code.",
    )
    days = serializers.IntegerField(min_value=1, max_value=365, default=90)
    scope = serializers.ChoiceField(choices=Scope.choices, default=Scope.EVERYTHING)
    name = serializers.CharField(max_length=100, allow_blank=True, default="")


class NewTokenSerializer(StrictSerializer):
    token = serializers.CharField(read_only=True)


class TokenSerializer(StrictModelSerializer):
    key = serializers.CharField(source="token_key", read_only=True)
    name = serializers.CharField(read_only=True)
    scope = serializers.ChoiceField(choices=Scope.choices, read_only=True)
    last_used_at = serializers.DateTimeField(read_only=True, allow_null=True)
    last_address = serializers.CharField(read_only=True)

    class Meta:
        model = AuthToken
        fields = ("key", "name", "scope", "created", "expiry", "last_used_at", "last_address")
        read_only_fields = fields

    def to_representation(self, instance: AuthToken) -> dict[str, Any]:
        return dict(super().to_representation(users.with_facts(instance)))


class TokenViewSet(
    mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet[AuthToken]
):
    """One's own tokens. Only a digest is stored, so only the response to POST shows a token."""

    queryset = AuthToken.objects.select_related("facts").order_by("-created")
    serializer_class = TokenSerializer
    lookup_field = "token_key"
    lookup_value_regex = r"[A-Za-z0-9]{1,25}"
    # A viewer may revoke a token: it is their own.
    write_right = Right.VIEW
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
        if not one_time_codes.check(user, given["code"]):
            credentials = {"username": given["username"]}
            user_login_failed.send(__name__, credentials=credentials, request=request._request)
            raise exceptions.AuthenticationFailed(
                "This account needs `code`, the one-time code of this moment or a recovery code."
            )
        token = users.create_token(
            username=given["username"],
            **{name: given[name] for name in ("days", "scope", "name")},
        )
        return Response({"token": token}, status=status.HTTP_201_CREATED)
