"""The form that requests a report of conflicting keys: window and period."""

from __future__ import annotations

from django import forms

from mirrors.services.comparison import conflicts


class ConflictReportForm(forms.Form):
    use_required_attribute = False
    window_seconds = forms.IntegerField(
        label="Window (s)",
        min_value=1,
        max_value=conflicts.MOST_WINDOW_S,
        initial=conflicts.WINDOW_S,
        help_text="The longest time between the records of both sides.",
    )
    period_seconds = forms.IntegerField(
        label="Period (s)",
        min_value=1,
        max_value=conflicts.MOST_PERIOD_S,
        initial=conflicts.PERIOD_S,
        help_text="How far back both sides are read.",
    )
