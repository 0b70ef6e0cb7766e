"""REST of people: create, give roles, deactivate, unlock, end sessions and tokens. For admins."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError as DjangoValidationError
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from knox.models import AuthToken
from rest_framework import mixins, serializers, status, viewsets
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mirrors.api.access.tokens import TokenSerializer
from mirrors.api.base import StrictModelSerializer, StrictSerializer, body_of
from mirrors.api.viewsets import RelatedViewSet
from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings
from mirrors.models import ExtraRole, Role, role_in
from mirrors.services import users

ROLE_CHOICES = [(role.word, role.word) for role in Role]
_EXTRAS = [(extra.value, extra.value) for extra in ExtraRole]


class PersonSerializer(StrictModelSerializer):
    """`locked`: failed sign-ins lock the account at some address. `tokens`: how many it has."""

    role = serializers.SerializerMethodField()
    extras = serializers.SerializerMethodField()
    # Empty for many, so it has no format.
    email = serializers.CharField(read_only=True)
    active = serializers.BooleanField(source="is_active", read_only=True)
    locked = serializers.SerializerMethodField()
    tokens = serializers.SerializerMethodField()

    class Meta:
        model = User
        fields = (
            *("id", "username", "email", "role", "extras", "active", "last_login"),
            *("locked", "tokens"),
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=ROLE_CHOICES))
    def get_role(self, user: User) -> str:
        return (Role.ADMIN if user.is_superuser else role_in(_names(user))).word

    @extend_schema_field(serializers.ListField(child=serializers.ChoiceField(choices=_EXTRAS)))
    def get_extras(self, user: User) -> list[str]:
        return sorted(_names(user) & set(ExtraRole))

    def get_locked(self, user: User) -> bool:
        return users.is_locked(user)

    def get_tokens(self, user: User) -> int:
        return AuthToken.objects.filter(user=user).count()


def _names(user: User) -> set[str]:
    return {group.name for group in user.groups.all()}


class RolesSerializer(StrictSerializer):
    role = serializers.ChoiceField(choices=ROLE_CHOICES, required=False)
    extras = serializers.ListField(
        child=serializers.ChoiceField(choices=_EXTRAS), required=False, max_length=len(_EXTRAS)
    )
    active = serializers.BooleanField(required=False)


class NewPersonSerializer(StrictSerializer):
    username = serializers.CharField(max_length=150, validators=[User.username_validator])
    password = serializers.CharField(max_length=500, trim_whitespace=False, write_only=True)
    role = serializers.ChoiceField(choices=ROLE_CHOICES, default=Role.VIEWER.word)


class PersonViewSet(
    mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet[User]
):
    """People, by name. Only admins read and change them; nobody changes their own account here."""

    queryset = User.objects.prefetch_related("groups").order_by("username")
    serializer_class = PersonSerializer
    read_right = write_right = Right.ADMINISTER
    lookup_value_regex = r"\d{1,18}"
    search_fields = ("username", "email")
    ordering_fields = ("username", "last_login")
    filter_fields: ClassVar = {"active": "is_active", "username": "username"}

    @extend_schema(request=NewPersonSerializer, responses={201: PersonSerializer})
    def create(self, request: Request) -> Response:
        given = body_of(request, NewPersonSerializer)
        name = User.normalize_username(given["username"])
        if User.objects.filter(username__iexact=name).exists():
            raise InvalidSettings({"username": [f"A user {name} already exists."]})
        try:
            validate_password(given["password"], User(username=name))
        except DjangoValidationError as error:
            raise InvalidSettings({"password": list(error.messages)}) from None
        made = users.ensure_person(
            username=name, password=given["password"], role=Role[given["role"].upper()]
        )
        return Response(self.get_serializer(made).data, status=status.HTTP_201_CREATED)

    @extend_schema(request=RolesSerializer, responses=PersonSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Set the role, the further roles, or whether the account is active."""
        user, given = self.get_object(), body_of(request, RolesSerializer)
        by = User.objects.get(pk=str(request.user.pk))
        if "role" in given or "extras" in given:
            held = PersonSerializer(user).data
            role = Role[str(given.get("role", held["role"])).upper()]
            extras = given.get("extras", held["extras"])
            user = users.set_roles(user=user, role=role, extras=extras, by=by)
        if "active" in given:
            user = users.set_active(user=user, active=given["active"], by=by)
        return self._answer(user)

    @extend_schema(request=None, responses=PersonSerializer)
    @action(detail=True, methods=["post"])
    def unlock(self, request: Request, pk: str) -> Response:
        """Forget its failed sign-ins."""
        user = self.get_object()
        users.unlock(user=user)
        return self._answer(user)

    @extend_schema(request=None, responses=PersonSerializer)
    @action(detail=True, methods=["post"], url_path="end-access")
    def end_access(self, request: Request, pk: str) -> Response:
        """End all its sessions and revoke all its tokens."""
        user = self.get_object()
        users.end_access(user=user)
        return self._answer(user)

    def _answer(self, user: User) -> Response:
        return Response(self.get_serializer(self.get_queryset().get(pk=user.pk)).data)


class TokenOfPersonViewSet(mixins.DestroyModelMixin, RelatedViewSet):
    """Tokens of one person, newest first; an admin revokes them."""

    queryset = AuthToken.objects.select_related("facts").order_by("-created")
    serializer_class = TokenSerializer
    parent = User
    parent_field = "user"
    read_right = write_right = Right.ADMINISTER
    lookup_field = "token_key"
    lookup_value_regex = r"[A-Za-z0-9]{1,25}"
    ordering_fields = ("created",)

    def get_object(self) -> Any:
        return get_object_or_404(self.get_queryset(), token_key=self.kwargs["token_key"])
