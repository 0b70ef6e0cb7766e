"""The base of forms whose values the domain judges: its errors return to their fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from django import forms
from django.db.models import QuerySet

from mirrors.domain.errors import InvalidSettings
from mirrors.models import Flow


def field_of(key: str) -> str:
    return key.replace(".", "_").replace("-", "_")


def parse_lines(text: str) -> dict[str, str]:
    """`key=value` lines; blank lines and lines that start with # do not count."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, sign, value = line.partition("=")
        key = key.strip()
        if not sign or not key:
            problems.append(f"Line {number} is not key=value: {line[:80]!r}.")
        elif key in found:
            problems.append(f"Line {number} sets {key} a second time.")
        else:
            found[key] = value.strip()
    if problems:
        raise forms.ValidationError(problems)
    return found


def lines_of(properties: dict[str, str]) -> str:
    return "\n".join(f"{key}={value}" for key, value in sorted(properties.items()))


def text_field(label: str, *, mono: bool = True, area: int = 0, **options: Any) -> forms.CharField:
    look = {"autocomplete": "off", "spellcheck": "false", **({"class": "mono"} if mono else {})}
    look |= {"placeholder": options.pop("placeholder")} if "placeholder" in options else {}
    widget = forms.Textarea({**look, "rows": area}) if area else forms.TextInput(look)
    options.setdefault("max_length", 20_000 if area else 500)
    options.setdefault("required", False)
    return forms.CharField(label=label, widget=widget, **options)


class _Names(forms.models.ModelChoiceIterator):
    """The names of the flows alone: an installation has thousands."""

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        if self.field.empty_label is not None:
            yield "", str(self.field.empty_label)
        for pk, *aliases in self.queryset.values_list("pk", "source__alias", "target__alias"):
            yield pk, "→".join(aliases)


class FlowChoice(forms.ModelChoiceField):
    iterator = _Names


def flow_choices() -> QuerySet[Flow]:
    return Flow.objects.select_related("source", "target").order_by(
        "source__alias", "target__alias"
    )


class SettingsForm(forms.Form):
    """A form whose values the domain judges: `refuse` adds the domain's errors to their fields."""

    required_css_class = "required"
    use_required_attribute = False
    # The field for errors about keys without a field of their own.
    rest: ClassVar[str] = "properties"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.error_messages["required"] = "This field is required."

    def refuse(self, error: InvalidSettings) -> None:
        for key, sentences in error.fields.items():
            self.complain(key, sentences)

    def complain(self, key: str, sentences: Iterable[str]) -> None:
        name = field_of(key.removeprefix("properties.").removesuffix("_id"))
        if name not in self.fields:
            name = self.rest if self.rest in self.fields else ""
        for sentence in sentences:
            self.add_error(name or None, sentence)

    def mark_fields(self) -> None:
        """Tell screen readers which fields are invalid and where hint and errors are."""
        for bound in self:
            described = [f"{bound.id_for_label}-hint"] if bound.help_text else []
            if bound.errors:
                bound.field.widget.attrs["aria-invalid"] = "true"
                described.append(f"{bound.id_for_label}-errors")
            if described:
                bound.field.widget.attrs["aria-describedby"] = " ".join(described)
