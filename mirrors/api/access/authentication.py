"""Token authentication, and the role that each REST call requires."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from mirrors.models import Role, Scope, TokenFacts, may_approve, role_of
from mirrors.models.roles import limit_to, scope_of
from mirrors.services import users


class Tokens(TokenAuthentication):
    """Tokens of people, limited to their scope. One that is not ASCII is invalid, not an error."""

    def authenticate_credentials(self, token: bytes) -> Any:
        if not token.isascii():
            raise AuthenticationFailed("Invalid token.")
        user, found = super().authenticate_credentials(token)
        facts = TokenFacts.objects.filter(token=found).first()
        if facts is not None:
            limit_to(user, facts.scope)
        users.note_use(found, facts)
        return user, found


class TokensInSchema(OpenApiAuthenticationExtension):
    target_class = Tokens
    match_subclasses = True
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "Authorization: Token …",
        }


class RolePermission(BasePermission):
    """Reading requires a viewer or the view's `read_role`; writing an admin or its `write_role`.

    The view's `approver_actions` require an approver or an admin.
    """

    message = "Your role does not allow this."

    def has_permission(self, request: Request, view: Any) -> bool:
        if getattr(view, "action", None) in getattr(view, "approver_actions", ()):
            self.message = "This needs the role approver or admin."
            return may_approve(request.user)
        scope = scope_of(request.user)
        if scope == Scope.METRICS:
            self.message = "The scope of this token is metrics: it reads /metrics only."
            return getattr(view, "has_metrics", False)
        reading = request.method in SAFE_METHODS
        demanded = (
            getattr(view, "read_role", Role.VIEWER)
            if reading
            else getattr(view, "write_role", Role.ADMIN)
        )
        held = role_of(request.user)
        self.message = f"This needs the role {demanded.word}; you have {held.word}."
        if scope != Scope.EVERYTHING and held < demanded:
            self.message += f" The scope of this token is {scope}."
        return held >= demanded
