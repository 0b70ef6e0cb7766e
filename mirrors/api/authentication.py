"""Token authentication, and the role that each REST call requires."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from mirrors.models import Role, role_of


class Tokens(TokenAuthentication):
    """Tokens of people. A token that is not ASCII is invalid and causes no server error."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isascii():
            raise AuthenticationFailed("Invalid token.")
        return super().authenticate_credentials(token)


class TokensInSchema(OpenApiAuthenticationExtension):
    target_class = Tokens
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "Authorization: Token …",
        }


class RolePermission(BasePermission):
    """Reading requires a viewer or the view's `read_role`; writing an admin or its `write_role`."""

    message = "Your role does not allow this."

    def has_permission(self, request: Request, view: Any) -> bool:
        reading = request.method in SAFE_METHODS
        demanded = (
            getattr(view, "read_role", Role.VIEWER)
            if reading
            else getattr(view, "write_role", Role.ADMIN)
        )
        held = role_of(request.user)
        self.message = f"This needs the role {demanded.word}; you have {held.word}."
        return held >= demanded
