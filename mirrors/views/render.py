"""One view, two answers: the whole page, or its live part alone when htmx asks for it."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def render_page(
    request: HttpRequest,
    template: str,
    context: dict[str, Any],
    *,
    section: str,
    every: int | None = None,
    status: int = 200,
) -> HttpResponse:
    """The browser asks again `every` so many seconds; None for pages that stand still."""
    fragment = request.headers.get("HX-Request") == "true"
    context = {
        **context,
        "base": "fragment.html" if fragment else "base.html",
        "section": section,
        "every": every,
    }
    response = render(request, template, context, status=status)
    patch_vary_headers(response, ["HX-Request", "Cookie"])
    response.headers.setdefault("Cache-Control", "no-store")
    return response
