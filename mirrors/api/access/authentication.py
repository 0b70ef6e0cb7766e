"""Token authentication, and the role that each REST call requires."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from mirrors.domain.access.rights import Right
from mirrors.models import TokenFacts
from mirrors.models.access.roles import limit_to
from mirrors.services import users
from mirrors.services.access.gate import check


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
    """Reads need the view's `read_right` or `view`; writes its `write_right` or `administer`.

    `action_rights` has the rights of single actions.
    """

    message = "Your role does not allow this."

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.method in SAFE_METHODS:
            usual = getattr(view, "read_right", Right.VIEW)
        else:
            usual = getattr(view, "write_right", Right.ADMINISTER)
        rights: dict[Any, Right] = getattr(view, "action_rights", {})
        demanded = rights.get(getattr(view, "action", None), usual)
        match = request._request.resolver_match
        try:
            check(
                request.user,
                demanded,
                match.route if match else "",
                view.kwargs,
                reading=request.method in SAFE_METHODS,
            )
        except PermissionDenied as error:
            self.message = str(error)
            return False
        return True
