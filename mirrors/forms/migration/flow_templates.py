"""The form of a flow template: the template, the clusters in its roles, shared settings."""

from __future__ import annotations

from typing import Any

from django import forms

from mirrors.domain.migration.flow_templates import TEMPLATES, TemplateKind, kind_of
from mirrors.forms.base import SettingsForm, field_of, parse_lines, text_field
from mirrors.forms.flows import flow_field
from mirrors.models import Cluster, Runner

SHARED_KEYS = (
    "topics",
    "topics.exclude",
    "replication.policy.class",
    "replication.policy.separator",
)
LAST_PLACE = 9_999


def _place_of(cluster: Cluster) -> str:
    return f"place-{cluster.pk}"


class TemplateForm(SettingsForm):
    """`others` are the selected clusters; for a chain, `place` fields give their order."""

    kind = forms.ChoiceField(
        label="Template", choices=[(one.kind, one.label) for one in TEMPLATES.values()]
    )
    first = forms.ModelChoiceField(
        Cluster.objects.all(), label="First", to_field_name="alias", empty_label="Choose"
    )
    others = forms.ModelMultipleChoiceField(
        Cluster.objects.all(), label="Others", to_field_name="alias", required=False
    )
    runner = forms.ModelChoiceField(
        Runner.objects.all(),
        label="Runner",
        to_field_name="name",
        required=False,
        empty_label="The default runner",
    )
    properties = text_field("Further settings", area=4, placeholder="skip.replicated=true")

    def __init__(self, *args: Any, clusters: list[Cluster], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.clusters = clusters
        for key in SHARED_KEYS:
            self.fields[field_of(key)] = flow_field(key, None)
        self.fields["properties"].help_text = "One key=value per line; they apply to every flow."
        for cluster in clusters:
            # Only for typed values: 500 fields would take half of the page's time.
            if self.data.get(_place_of(cluster)):
                self.fields[_place_of(cluster)] = forms.IntegerField(
                    label=f"Place of {cluster.alias}",
                    required=False,
                    min_value=1,
                    max_value=LAST_PLACE,
                )

    def clean_properties(self) -> dict[str, str]:
        found = parse_lines(self.cleaned_data["properties"])
        twice = [key for key in SHARED_KEYS if key in found]
        if twice:
            raise forms.ValidationError([f"{key} has its own field above." for key in twice])
        return found

    @property
    def chosen_kind(self) -> TemplateKind:
        return kind_of(self.cleaned_data["kind"])

    @property
    def chosen(self) -> list[Cluster]:
        """The clusters in order, the first role first."""
        first: Cluster = self.cleaned_data["first"]
        rest = [cluster for cluster in self.cleaned_data["others"] if cluster.pk != first.pk]
        return [first, *sorted(rest, key=self._place)]

    def settings(self) -> dict[str, str]:
        typed = {key: self.cleaned_data.get(field_of(key), "").strip() for key in SHARED_KEYS}
        given = {key: text for key, text in typed.items() if text}
        return {**given, **self.cleaned_data["properties"]}

    def complain(self, key: str, sentences: Any) -> None:
        super().complain("others" if key == "clusters" else key, sentences)

    def rows(self) -> list[dict[str, Any]]:
        """One row per cluster: whether it is selected, and its position in a chain."""
        ticked = set(self["others"].value() or [])
        return [
            {
                "cluster": cluster,
                "ticked": cluster.alias in ticked,
                "place": _place_of(cluster),
                "typed": self.data.get(_place_of(cluster), ""),
                "wrong": self.errors.get(_place_of(cluster), ()),
            }
            for cluster in self.clusters
        ]

    def _place(self, cluster: Cluster) -> tuple[int, str]:
        place = self.cleaned_data.get(_place_of(cluster))
        is_chain = self.chosen_kind == "chain"
        return (place or LAST_PLACE + 1) if is_chain else 0, cluster.alias
