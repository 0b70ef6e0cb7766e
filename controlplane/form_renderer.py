"""Rendering of forms: Django's, except for long select lists."""

from __future__ import annotations

from typing import Any

from django.forms.renderers import DjangoTemplates
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

_SELECT = "django/forms/widgets/select.html"
_OPTION = "django/forms/widgets/select_option.html"


class Renderer(DjangoTemplates):
    """Renders options in Python: 500 template calls take longer than the rest of the page."""

    def render(
        self, template_name: str, context: dict[str, Any], request: Any = None
    ) -> SafeString:
        widget = context.get("widget", {})
        if template_name == _SELECT and _is_plain(widget):
            return _select(widget)
        return mark_safe(super().render(template_name, context, request))  # noqa: S308


def _is_plain(widget: dict[str, Any]) -> bool:
    return all(
        not group and option["template_name"] == _OPTION
        for group, options, _ in widget["optgroups"]
        for option in options
    )


def _select(widget: dict[str, Any]) -> SafeString:
    options = [
        f'\n  <option value="{conditional_escape(str(option["value"]))}"'
        f"{_attributes(option['attrs'])}>{conditional_escape(option['label'])}</option>\n"
        for _, group, _ in widget["optgroups"]
        for option in group
    ]
    head = format_html('<select name="{}"', widget["name"])
    # Each part is escaped above.
    return mark_safe(f"{head}{_attributes(widget['attrs'])}>{''.join(options)}\n</select>")  # noqa: S308


def _attributes(given: dict[str, Any]) -> str:
    parts = []
    for name, value in given.items():
        if value is True:
            parts.append(f" {conditional_escape(name)}")
        elif value is not False:
            parts.append(f' {conditional_escape(name)}="{conditional_escape(str(value))}"')
    return "".join(parts)
