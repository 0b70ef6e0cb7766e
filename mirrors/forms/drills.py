"""A drill's schedule and a flow's objectives, as forms."""

from __future__ import annotations

from typing import Any

from django import forms

from mirrors.forms.base import FlowChoice, SettingsForm, flow_choices, text_field
from mirrors.models import Drill, Flow
from mirrors.models.access.grants import choosable


class DrillForm(SettingsForm):
    rest = "groups"
    flow = FlowChoice(label="Flow", queryset=Flow.objects.none(), empty_label="Choose a flow")
    schedule = text_field("Schedule", required=True, max_length=100, initial="0 3 * * 1")
    time_zone = text_field("Time zone", required=True, max_length=64, initial="UTC")
    groups = text_field("Consumer groups", area=4)
    enabled = forms.BooleanField(label="Runs", required=False, initial=True)

    def __init__(self, *args: Any, drill: Drill | None = None, **kwargs: Any) -> None:
        if drill is not None:
            kwargs["initial"] = {
                "flow": drill.flow_id,
                "schedule": drill.schedule,
                "time_zone": drill.time_zone,
                "groups": "\n".join(drill.groups),
                "enabled": drill.enabled,
            }
        super().__init__(*args, **kwargs)
        rows = flow_choices()
        flows = choosable(rows) if drill is None else rows.filter(pk=drill.flow_id)
        self.fields["flow"].queryset = flows  # type: ignore[attr-defined]
        self.fields["flow"].disabled = drill is not None
        self.fields["schedule"].help_text = (
            "Five fields of cron: minute, hour, day, month, weekday. `0 3 * * 1` is each Monday at "
            "03:00."
        )
        self.fields["time_zone"].help_text = "Such as `UTC` or `Europe/Berlin`."
        self.fields["groups"].help_text = "One per line. Empty: all that the flow synchronizes."
        self.fields[
            "enabled"
        ].help_text = "When off, no drill runs. Missed drills are not run later."

    def clean_groups(self) -> list[str]:
        return [line.strip() for line in self.cleaned_data["groups"].splitlines() if line.strip()]


class ObjectivesForm(SettingsForm):
    rest = ""
    rpo_seconds = forms.IntegerField(label="RPO, seconds", min_value=0, required=False)
    rpo_records = forms.IntegerField(label="RPO, records", min_value=0, required=False)
    rto_seconds = forms.IntegerField(label="RTO, seconds", min_value=1, required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields[
            "rpo_seconds"
        ].help_text = "Maximum age of the oldest record not replicated when the source fails."
        self.fields["rpo_records"].help_text = "Maximum number of lost records."
        self.fields["rto_seconds"].help_text = (
            "Maximum time until every group consumes again. A drill measures Understudy's part: "
            "the plan, and each group's first records."
        )
