"""Template tags that show states, figures, times and names in one uniform format."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django import template
from django.apps import apps
from django.templatetags.static import static
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from mirrors.domain import formatting
from mirrors.domain.account import sentences
from mirrors.domain.account.totals import Total
from mirrors.services.clock import milliseconds
from mirrors.views.time_zone import local

register = template.Library()


def _figure(name: str, shape: Callable[[Any], str]) -> None:
    """A filter for a figure: whatever is no number reads as not known, never as an error."""
    register.filter(name, lambda value: shape(value if isinstance(value, int | float) else None))


_figure("count", formatting.count)
_figure("duration", formatting.duration)
_figure("rate", formatting.rate)
_figure("size", formatting.size)
_figure("seconds", lambda value: formatting.duration(None if value is None else value * 1000))
register.filter("arrow", formatting.arrow)

# A flow has the same color on every page; `[data-color]` in the style sheet has as many.
_COLORS = 8
register.filter("color", lambda pk: pk % _COLORS)

# Values that are not simply themselves with spaces; kinds of rows that the audit names.
_WORDS: dict[str, str] = {
    str(model._meta.model_name): str(model._meta.verbose_name) for model in apps.get_models()
}
_WORDS.update({"in_sync": "in sync", "absent": "not started"})
_WORDS.update({str(state): word for state, word in sentences.STATE_TEXTS.items()})
_SELECTED = SafeString(" selected")


@register.filter
def shown(text: Any) -> str:
    """Text from outside (names, broker errors) with hidden letters made visible; still escaped."""
    return formatting.visible("" if text is None else str(text))


@register.filter
def without_stop(text: Any) -> str:
    """A person's text for a sentence that the template ends: `shown`, without its full stop."""
    return shown(text).rstrip().removesuffix(".")


@register.filter
def codes(text: Any) -> SafeString:
    """Prose of our own or of an error: what stands in backticks is set as code, all is escaped."""
    parts = str(text).split("`")
    return format_html_join(
        "",
        "{}",
        (
            (format_html("<code>{}</code>", part) if at % 2 else part,)
            for at, part in enumerate(parts)
        ),
    )


@register.filter
def word(state: Any) -> str:
    """The word of a state: `backing_off` reads "backing off"."""
    text = str(state or "unknown")
    return _WORDS.get(text, text.replace("_", " "))


@register.simple_tag
def options(choice: dict[str, Any]) -> SafeString:
    """What a list can be filtered by, by hand: a template is slow where it is every cluster."""
    texts = choice.get("texts")
    said = texts.get if texts else shown if choice.get("names") else word
    return format_html_join(
        "",
        '\n    <option value="{}"{}>{}</option>',
        (
            (value, _SELECTED if value == choice["chosen"] else "", said(value))
            for value in choice["values"]
        ),
    )


@register.simple_tag
def state(value: Any, title: str = "", label: str = "") -> SafeString:
    """A state as word, shape and colour; the style sheet draws shape and colour."""
    return format_html(
        '<span class="state" data-state="{}"{}>{}</span>',
        value or "unknown",
        format_html(' title="{}"', formatting.visible(title)) if title else "",
        label or word(value),
    )


@register.simple_tag
def number(value: Any, why: str = "not known") -> SafeString:
    """A count with its thousands grouped; a dash that says why where it is not known."""
    if not isinstance(value, int):
        return format_html('<span title="{}">{}</span>', why, formatting.UNKNOWN)
    return format_html("{}", formatting.count(value))


@register.simple_tag
def owed(total: Any, why: str = "no figures yet") -> SafeString:
    """What is owed as one figure: `≥ 2,485` for a lower bound, a dash where all is unknown.

    The title has the whole statement with its age.
    """
    # A flow that was never evaluated has no account: that path arrives as an empty text.
    if not isinstance(total, Total):
        return format_html('<span title="{}">{}</span>', why, formatting.UNKNOWN)
    now = milliseconds(timezone.now())
    stated = total.as_of(now)
    said = sentences.owed_as_of(total, now)
    if stated.certainty == "unknown":
        return format_html('<span title="{}">{}</span>', said, formatting.UNKNOWN)
    bound = "≥ " if stated.certainty == "at_least" else ""
    return format_html(
        '<span title="{}">{}{}</span>', said, bound, formatting.count(stated.records)
    )


@register.simple_tag
def lasting(milliseconds: Any, why: str = "not known", unknown: Any = 0) -> SafeString:
    """A readable duration, with the exact milliseconds in its title.

    With `unknown` parts it is a lower bound; "at least 0 s" says nothing.
    """
    # A path that leads nowhere arrives as an empty text.
    if not isinstance(milliseconds, int | float) or (unknown and not milliseconds):
        return format_html('<span title="{}">{}</span>', why, formatting.UNKNOWN)
    exact, short = f"{milliseconds:,} ms", formatting.duration(milliseconds)
    if unknown:
        exact, short = f"at least {exact}", f"≥ {short}"
    return format_html('<span title="{}">{}</span>', exact, short)


@register.simple_tag
def time_lag(total: Any, why: str = "not known") -> SafeString:
    """The age of the oldest record owed, as it can be stated now."""
    if not isinstance(total, Total):
        return lasting(None, why)
    stated = total.as_of(milliseconds(timezone.now()))
    return lasting(stated.time_lag_ms, why, stated.unknown_lags)


@register.simple_tag
def ago(moment: datetime | None, never: str = "never") -> SafeString:
    """How long ago, with the exact UTC time in its title."""
    if moment is None:
        return format_html("{}", never)
    age = (timezone.now() - moment).total_seconds() * 1000
    text = "just now" if age < 1000 else f"{formatting.duration(round(age, -3))} ago"
    return _time(moment, text)


@register.simple_tag
def instant(moment: datetime | None, never: str = formatting.UNKNOWN) -> SafeString:
    """A moment of today as its time, any other with its date; with its zone, UTC in its title."""
    if moment is None:
        return format_html("{}", never)
    here = local(moment)
    is_today = here.date() == local(timezone.now()).date()
    return _time(moment, f"{here:{'%H:%M:%S' if is_today else '%d %b %Y, %H:%M'} %Z}")


@register.simple_tag
def share(value: Any, of: Any) -> str:
    """A value in percent of the greatest one, at least 1 so that a bar is visible."""
    if not isinstance(value, int | float) or not isinstance(of, int | float) or not of:
        return "0"
    return f"{max(1.0, min(100.0, 100 * value / of)):.0f}"


@register.simple_tag
def clock(moment: datetime, zone: str = "") -> SafeString:
    """Hour and minute, for the axis of a chart; with its zone if `zone` is not empty."""
    return _time(moment, f"{local(moment):{'%H:%M %Z' if zone else '%H:%M'}}")


@register.simple_tag
def since(start: datetime | None, end: datetime | None = None) -> SafeString:
    """How long something lasted; in whole seconds while it still lasts."""
    if start is None:
        return format_html("{}", formatting.UNKNOWN)
    lasted = ((end or timezone.now()) - start).total_seconds() * 1000
    return _time(start, formatting.duration(round(lasted) if end else round(lasted, -3)))


def _time(moment: datetime, text: str) -> SafeString:
    utc = moment.astimezone(UTC)
    return format_html(
        '<time datetime="{}" title="{} UTC">{}</time>',
        utc.isoformat(timespec="milliseconds"),
        f"{utc:%Y-%m-%d %H:%M:%S}",
        text,
    )


@register.simple_tag
def topic_link(flow: int, topic: str, label: str = "") -> SafeString:
    """The name of a flow's source topic, or a `label` of it, with a link to the topic's page."""
    address = reverse("flow-topic", args=[flow, topic])
    return format_html('<a class="name" href="{}">{}</a>', address, shown(label or topic))


@register.simple_tag
def icon(name: str) -> SafeString:
    """A drawing from the sprite; the word beside it carries the meaning."""
    return format_html(
        '<svg class="icon" aria-hidden="true"><use href="{}#{}"></use></svg>',
        static("controlplane/icons.svg"),
        name,
    )
