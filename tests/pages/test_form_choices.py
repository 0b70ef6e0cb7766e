"""The form renderer writes lists of choices exactly as Django's templates do."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.forms.renderers import DjangoTemplates

from controlplane.form_renderer import Renderer

ODD = "<b>\"x\" & 'y'</b>"
CHOICES = [("", "Choose"), ("a", "One"), (2, ODD), (ODD, "Three")]
GROUPS = [("", "Choose"), (ODD, [("a", "One"), ("b", ODD)])]


@pytest.mark.parametrize(
    ("widget", "value"),
    [
        (forms.Select(choices=CHOICES), "a"),
        (forms.Select({"required": True, "disabled": False, "title": ODD}, CHOICES), None),
        (forms.SelectMultiple({"class": "short"}, CHOICES), ["a", ODD]),
        (forms.Select(choices=GROUPS), "b"),
        (forms.Select(choices=[]), None),
        (forms.RadioSelect(choices=CHOICES), "a"),
        (forms.TextInput({"data-x": ODD}), ODD),
    ],
)
def test_a_widget_reads_as_django_would_write_it(widget: forms.Widget, value: Any) -> None:
    attributes = {"id": "id_one"}
    ours = widget.render("one", value, attributes, Renderer())
    assert ours == widget.render("one", value, attributes, DjangoTemplates())
    assert "<b>" not in ours
