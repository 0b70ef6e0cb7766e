"""The headings of a list's table, from its declaration."""

from __future__ import annotations

from typing import Any

from django import template

from mirrors.lists.columns import SPECS
from mirrors.views.tables import Heading

register = template.Library()


@register.inclusion_tag("components/table_head.html")
def list_head(name: str) -> dict[str, Any]:
    """The headings of a list that is shown whole, so they have no links to sort it."""
    headings = [Heading(column) for column in SPECS[name].headings]
    return {"table": {"name": name, "headings": headings}}
