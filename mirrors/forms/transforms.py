"""The form of a preview of rules: which topic, how many records, and the rules."""

from __future__ import annotations

from django import forms

from mirrors.domain.transforms.evaluation import MOST_RECORDS
from mirrors.forms.base import SettingsForm, text_field
from mirrors.services.topics.transforms import DEFAULT_COUNT


class RulePreviewForm(SettingsForm):
    rest = "transforms"

    topic = text_field(
        "Topic",
        required=True,
        max_length=249,
        help_text="A topic of the source that the flow replicates.",
    )
    count = forms.IntegerField(
        label="Newest records",
        min_value=1,
        max_value=MOST_RECORDS,
        initial=DEFAULT_COUNT,
        help_text=f"Shared among the topic's partitions; at most {MOST_RECORDS}.",
    )
    transforms = text_field(
        "Rules on records",
        area=12,
        help_text="The flow's rules, or others that you try. Nothing is saved here.",
    )
