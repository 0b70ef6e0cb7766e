"""Errors in one JSON format, and pagination of lists."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.template.loader import get_template
from django.views import defaults
from django.views.decorators.csrf import csrf_exempt
from rest_framework import exceptions, status
from rest_framework.pagination import PageNumberPagination
from rest_framework.permissions import SAFE_METHODS
from rest_framework.response import Response

from controlplane.api.json_parser import MAX_BODY, TooLarge
from mirrors.domain.errors import InvalidSettings, UnderstudyError
from mirrors.services.errors import Conflict, TooMany

log = logging.getLogger(__name__)

_DATABASE_UNAVAILABLE = (
    "The database does not respond; nothing was read or changed. Replication continues. "
    "Try again in a moment."
)
_WRITE_OUTCOME_UNKNOWN = (
    "The database does not respond. The outcome of the last action is unknown: check it before "
    "you repeat it. Replication continues."
)
_INTERNAL_ERROR = "Internal error. The log of the server has the details under the reference."
_STATUS: dict[type[UnderstudyError], int] = {
    Conflict: status.HTTP_409_CONFLICT,
    TooMany: status.HTTP_429_TOO_MANY_REQUESTS,
}


class PageNotFound(exceptions.ValidationError):
    """A page number that does not exist: 404 with the name of the parameter."""

    status_code = status.HTTP_404_NOT_FOUND
    default_code = "not_found"


class Pagination(PageNumberPagination):
    page_size = 100
    page_size_query_param = "page_size"
    max_page_size = 1000

    def get_page_size(self, request: Any) -> int | None:
        asked = request.query_params.get(self.page_size_query_param, "1")
        if not asked.isascii() or not asked.isdecimal() or not asked.strip("0"):
            sentence = (
                f"It must be a whole number from 1 to {self.max_page_size}, not {asked[:40]!r}."
            )
            raise exceptions.ValidationError({self.page_size_query_param: [sentence]})
        return super().get_page_size(request)

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> Any:
        try:
            return super().paginate_queryset(queryset, request, view=view)
        except exceptions.NotFound:
            asked = request.query_params.get(self.page_query_param, "")[:40]
            sentence = f"This list has no page {asked!r}; its first is 1."
            raise PageNotFound({self.page_query_param: [sentence]}) from None


def error_body(
    request: Any, *, code: str, message: str, fields: dict[str, list[str]] | None = None
) -> dict[str, Any]:
    return {
        "error": {
            "code": code,
            "message": message,
            "fields": fields or {},
            "reference": getattr(request, "reference", ""),
        }
    }


def handle_exception(error: Exception, context: dict[str, Any]) -> Response:
    """Every error of a REST view in the one format."""
    request = context["request"]
    if isinstance(error, UnderstudyError):
        return _known_error(request, error)
    if isinstance(error, OperationalError | InterfaceError):
        log.error("the database does not respond: %s", error)
        body = error_body(
            request, code="database_unavailable", message=_unavailable_message(request)
        )
        return Response(body, status=status.HTTP_503_SERVICE_UNAVAILABLE)
    if isinstance(error, Http404):
        error = exceptions.NotFound(_not_found(request))
    elif isinstance(error, RequestDataTooBig):
        error = TooLarge(f"The body is larger than {MAX_BODY} bytes.")
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied(str(error) or None)
    if isinstance(error, exceptions.APIException):
        return _api_error(request, error)
    log.exception("unexpected error in a REST call", exc_info=error)
    body = error_body(request, code="internal", message=_INTERNAL_ERROR)
    return Response(body, status=status.HTTP_500_INTERNAL_SERVER_ERROR)


def _unavailable_message(request: Any) -> str:
    return _DATABASE_UNAVAILABLE if request.method in SAFE_METHODS else _WRITE_OUTCOME_UNKNOWN


def _known_error(request: Any, error: UnderstudyError) -> Response:
    fields = error.fields if isinstance(error, InvalidSettings) else None
    code = next((number for kind, number in _STATUS.items() if isinstance(error, kind)), 400)
    body = error_body(request, code=error.code, message=error.message, fields=fields)
    return Response(body, status=code)


def _api_error(request: Any, error: exceptions.APIException) -> Response:
    fields: dict[str, list[str]] = {}
    if isinstance(error, exceptions.ValidationError):
        for path, sentence in _flat(error.detail):
            fields.setdefault(path, []).append(sentence)
        message = " ".join(f"{key}: {text}" for key, texts in fields.items() for text in texts)
    else:
        message = str(error.detail)
    code = str(error.default_code)
    headers: dict[str, str] = {}
    if getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = error.auth_header  # type: ignore[attr-defined]
    if getattr(error, "wait", None):
        headers["Retry-After"] = str(int(error.wait))  # type: ignore[attr-defined]
    body = error_body(request, code=code, message=message, fields=fields)
    return Response(body, status=error.status_code, headers=headers)


def _flat(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Nested errors as dotted paths: properties.topics, offsets.3.partition."""
    if isinstance(detail, dict):
        for key, item in detail.items():
            yield from _flat(item, f"{path}.{key}" if path else str(key))
    elif isinstance(detail, list):
        for index, item in enumerate(detail):
            nested = isinstance(item, dict | list)
            if item:
                yield from _flat(item, f"{path}.{index}" if nested and path else path)
    else:
        yield path or "non_field_errors", str(detail)


def _not_found(request: Any) -> str:
    return f"No resource at {request.path}. All paths are listed at /api/v1/docs/."


# --- errors of Django, before or outside a REST view ----------------------------------------------


def _is_rest(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _json(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    return JsonResponse(error_body(request, code=code, message=message), status=status)


def _plain_page(request: HttpRequest, name: str, status: int, **context: Any) -> HttpResponse:
    """An error page without session and database, which may be the cause."""
    context["reference"] = getattr(request, "reference", "")
    return HttpResponse(get_template(name).render(context), status=status)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_rest(request):
        return _json(request, 400, "bad_request", "The request cannot be read.")
    return _plain_page(request, "400.html", 400)


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_rest(request):
        return _json(request, 403, "permission_denied", str(exception) or "Not allowed.")
    return defaults.permission_denied(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_rest(request):
        return _json(request, 404, "not_found", _not_found(request))
    return defaults.page_not_found(request, exception)


@login_not_required
@csrf_exempt
def unknown_path(request: HttpRequest) -> HttpResponse:
    """Any other path below /api/: JSON, never an HTML page or a redirect."""
    return _json(request, 404, "not_found", _not_found(request))


def server_error(request: HttpRequest) -> HttpResponse:
    is_unavailable = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    if _is_rest(request):
        if is_unavailable:
            return _json(request, 503, "database_unavailable", _unavailable_message(request))
        return _json(request, 500, "internal", _INTERNAL_ERROR)
    context = {"gone": is_unavailable, "reads": request.method in SAFE_METHODS}
    return _plain_page(request, "500.html", 503 if is_unavailable else 500, **context)


def refuse(request: HttpRequest, status: int, code: str, message: str) -> HttpResponse:
    """A refusal before the request is read: JSON or plain text."""
    if _is_rest(request):
        return _json(request, status, code, message)
    return HttpResponse(f"{message}\n", status=status, content_type="text/plain; charset=utf-8")


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    sentence = "The form is too old or from another site. Reload the page and retry."
    return permission_denied(request, PermissionDenied(sentence))
