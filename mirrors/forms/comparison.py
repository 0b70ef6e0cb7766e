"""The form that requests a comparison: flow, topics, and how much to read."""

from __future__ import annotations

import re
from typing import Any

from django import forms

from mirrors.forms.base import FlowChoice, flow_choices, text_field
from mirrors.models import Flow
from mirrors.models.access.grants import choosable
from mirrors.models.comparison import Engine
from mirrors.services.comparison import lifecycle


class ComparisonForm(forms.Form):
    use_required_attribute = False
    flow = FlowChoice(
        label="Flow",
        empty_label="Choose a flow",
        error_messages={"required": "Choose the flow whose clusters are compared."},
        queryset=Flow.objects.none(),
    )
    topics = text_field("Topics", placeholder="all topics that the flow replicates")
    content = forms.BooleanField(label="Compare records too", required=False, initial=True)
    records = forms.IntegerField(
        label="Last offsets of each partition",
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        initial=lifecycle.RECORDS,
    )
    seconds = forms.IntegerField(
        label="Seconds", min_value=1, max_value=lifecycle.MOST_SECONDS, initial=lifecycle.SECONDS
    )
    megabytes = forms.IntegerField(
        label="Megabytes",
        min_value=1,
        max_value=lifecycle.MOST_MEGABYTES,
        initial=lifecycle.MEGABYTES,
    )
    megabytes_per_second = forms.IntegerField(
        label="Megabytes per second",
        required=False,
        min_value=1,
        max_value=lifecycle.MOST_MEGABYTES,
        initial=lifecycle.MEGABYTES_PER_SECOND,
    )
    is_independent = forms.BooleanField(
        label="Read in a worker, with a client that shares no code with the engine", required=False
    )
    why = text_field("Reason", mono=False, max_length=500)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["flow"].queryset = choosable(flow_choices())  # type: ignore[attr-defined]
        self.fields["topics"].help_text = "Names on the source, separated by commas."
        self.fields["records"].help_text = "Empty: all that both clusters still have."
        self.fields[
            "seconds"
        ].help_text = "Time limit for reading; the result states what was not compared."
        self.fields["megabytes"].help_text = "Limit for both clusters together."
        self.fields[
            "megabytes_per_second"
        ].help_text = "While the flow's runner reads in its Spark. Empty: no limit."

    def clean_topics(self) -> list[str]:
        names = re.split(r"[,\s]+", self.cleaned_data["topics"].strip())
        return [name for name in names if name]

    def asked(self) -> dict[str, Any]:
        asked = dict(self.cleaned_data)
        if asked.pop("is_independent"):
            asked["engine"] = Engine.WORKER
        return asked
