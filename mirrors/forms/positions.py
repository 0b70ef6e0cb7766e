"""The form of a move of positions: which partitions, and where to."""

from __future__ import annotations

from django import forms

from mirrors.forms.base import SettingsForm, text_field


class PositionsForm(SettingsForm):
    rest = "topics"

    topics = text_field(
        "Topics",
        required=True,
        max_length=50_000,
        placeholder="orders, payments.*",
        help_text="Names or regular expressions, with commas between.",
    )
    partition = forms.IntegerField(
        label="Partition",
        required=False,
        min_value=0,
        max_value=2**31 - 1,
        help_text="Empty: all partitions.",
    )
    to = text_field(
        "New position",
        required=True,
        max_length=64,
        placeholder="earliest",
        help_text=(
            "`earliest` copies everything again, `latest` skips what is not replicated. Or an "
            "offset, or a time such as `2026-05-01T08:00:00Z`."
        ),
    )
