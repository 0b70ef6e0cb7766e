"""Forms of alert rules, channels and silences; the domain validates the rules."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils import timezone

from mirrors.forms.base import (
    FlowChoice,
    SettingsForm,
    flow_choices,
    lines_of,
    parse_lines,
    text_field,
)
from mirrors.models import Cluster, Flow
from mirrors.models.access.grants import choosable, seen
from mirrors.outbound_http import check_headers, refusal
from monitoring.channels.base import ChannelType
from monitoring.channels.registry import CHANNEL_TYPES, errors_of
from monitoring.domain.alerts.rules import KINDS, LARGEST, LONGEST_S, problems_of
from monitoring.models import AlertRule, Channel, Severity, TransferPrice

_LONGEST_LABELS = 20


class RuleForm(SettingsForm):
    name = text_field("Name", mono=False, required=True, max_length=100)
    kind = forms.ChoiceField(label="Condition", choices=[(kind, KINDS[kind][0]) for kind in KINDS])
    flow = FlowChoice(
        queryset=Flow.objects.none(), label="Flow", required=False, empty_label="every flow"
    )
    severity = forms.ChoiceField(
        label="Severity", choices=Severity.choices, initial=Severity.WARNING
    )
    threshold = forms.FloatField(label="Threshold", required=False, min_value=0, max_value=LARGEST)
    clear_below = forms.FloatField(
        label="Clears at", required=False, min_value=0, max_value=LARGEST
    )
    for_seconds = forms.IntegerField(
        label="For seconds", min_value=0, max_value=LONGEST_S, initial=0
    )
    channels = forms.ModelMultipleChoiceField(
        queryset=Channel.objects.none(),
        label="Channels",
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    runbook = forms.URLField(label="Runbook", required=False, max_length=500, assume_scheme="https")
    labels = text_field("Labels", area=3, placeholder="team=payments")
    enabled = forms.BooleanField(label="Turned on", required=False, initial=True)

    def __init__(self, *args: Any, rule: AlertRule | None = None, **kwargs: Any) -> None:
        super().__init__(*args, initial=_rule_initial(rule), **kwargs)
        self.rule = rule
        self.fields["flow"].queryset = seen(flow_choices())  # type: ignore[attr-defined]
        self.fields["channels"].queryset = Channel.objects.all()  # type: ignore[attr-defined]
        self.fields[
            "threshold"
        ].help_text = "In the unit of the condition. Conditions on states need none."
        self.fields["clear_below"].help_text = "Empty: at 80 % of the threshold."
        self.fields["for_seconds"].help_text = "How long it must be true before a message is sent."
        self.fields["channels"].help_text = "None selected: every channel that is turned on."
        self.fields["runbook"].help_text = "Empty: the built-in runbook of this condition."
        self.fields["labels"].help_text = "One key=value per line, sent with the alert."
        self.fields[
            "flow"
        ].help_text = "A rule of a flow replaces general ones with the same condition."

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        known = AlertRule.objects.filter(name=name).first()
        if known is not None and known != self.rule:
            raise forms.ValidationError("Another rule has this name.")
        return name

    def clean_labels(self) -> dict[str, str]:
        labels = parse_lines(self.cleaned_data["labels"])
        if len(labels) > _LONGEST_LABELS or any(len(text) > 200 for text in labels.values()):
            raise forms.ValidationError("At most 20 labels, each of at most 200 characters.")
        return labels

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or self.cleaned_data
        if "kind" in asked and not self.errors:
            wrong = problems_of(
                asked["kind"],
                asked.get("threshold"),
                asked.get("clear_below"),
                has_flow=asked.get("flow") is not None,
            )
            for field, sentences in wrong.items():
                self.complain(field, sentences)
        return asked


class ChannelForm(SettingsForm):
    name = text_field("Name", mono=False, required=True, max_length=100)
    kind = forms.ChoiceField(
        label="Kind", choices=[(kind, one.title) for kind, one in CHANNEL_TYPES.items()]
    )
    target = text_field("Address", max_length=1000, placeholder="env:UNDERSTUDY_NOTIFY_SLACK")
    secret = text_field("Secret reference", placeholder="env:UNDERSTUDY_NOTIFY_KEY")
    headers = text_field("Headers", area=3, placeholder="X-Team=payments")
    enabled = forms.BooleanField(label="Turned on", required=False, initial=True)

    def __init__(self, *args: Any, channel: Channel | None = None, **kwargs: Any) -> None:
        super().__init__(*args, initial=_channel_initial(channel), **kwargs)
        self.channel = channel
        self.fields["target"].help_text = (
            "A URL, e-mail addresses separated by commas, or a reference if the URL is secret. "
            "Empty for PagerDuty's own."
        )
        self.fields["secret"].help_text = (
            "The key to sign a webhook, or PagerDuty's routing key: `env:UNDERSTUDY_NOTIFY_…` or "
            "a file whose name begins with `notify`."
        )
        self.fields["headers"].help_text = "One Name=value per line; a value may be a reference."

    def clean_name(self) -> str:
        name = str(self.cleaned_data["name"])
        known = Channel.objects.filter(name=name).first()
        if known is not None and known != self.channel:
            raise forms.ValidationError("Another channel has this name.")
        return name

    def clean_secret(self) -> str:
        secret = str(self.cleaned_data["secret"])
        if secret and (sentence := refusal(secret)):
            raise forms.ValidationError(sentence)
        return secret

    def clean_headers(self) -> dict[str, str]:
        headers = parse_lines(self.cleaned_data["headers"])
        if sentence := check_headers(headers):
            raise forms.ValidationError(sentence)
        return headers

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or self.cleaned_data
        given = {name: asked.get(name, "") for name in ("kind", "target", "secret")}
        for field, sentence in errors_of(**given).items():
            self.complain(field, [sentence])
        return asked

    @property
    def channel_types(self) -> list[ChannelType]:
        """The types with their instructions, which the page shows under the fields."""
        return list(CHANNEL_TYPES.values())


class SilenceForm(SettingsForm):
    """A maintenance window, or a silence that begins now."""

    flow = FlowChoice(
        queryset=Flow.objects.none(), label="Flow", required=False, empty_label="every flow"
    )
    cluster = forms.ModelChoiceField(
        queryset=Cluster.objects.none(),
        label="Cluster",
        required=False,
        empty_label="any cluster",
    )
    rule = forms.ModelChoiceField(
        queryset=AlertRule.objects.none(), label="Rule", required=False, empty_label="every rule"
    )
    starts_at = forms.DateTimeField(label="From (UTC)", required=False)
    ends_at = forms.DateTimeField(label="Until (UTC)")
    reason = text_field("Reason", mono=False, required=True, max_length=500)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["flow"].queryset = choosable(flow_choices())  # type: ignore[attr-defined]
        self.fields["cluster"].queryset = choosable(Cluster.objects.all())  # type: ignore[attr-defined]
        self.fields["rule"].queryset = seen(AlertRule.objects.all())  # type: ignore[attr-defined]
        self.fields["cluster"].help_text = "All flows from and to this cluster."
        self.fields["starts_at"].help_text = "Empty: now."
        self.fields["reason"].help_text = "Shown with the silence."
        for name in ("starts_at", "ends_at"):
            self.fields[name].widget = forms.DateTimeInput(
                {"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"
            )

    def clean(self) -> dict[str, Any]:
        asked = super().clean() or self.cleaned_data
        asked["starts_at"] = asked.get("starts_at") or timezone.now()
        if "ends_at" in asked and asked["ends_at"] <= max(asked["starts_at"], timezone.now()):
            self.complain("ends_at", ["It must be after the start and in the future."])
        return asked


def _rule_initial(rule: AlertRule | None) -> dict[str, Any] | None:
    if rule is None:
        return None
    same = ("name", "kind", "flow", "severity", "threshold", "clear_below", "for_seconds")
    facts = {name: getattr(rule, name) for name in (*same, "runbook", "enabled")}
    return {**facts, "labels": lines_of(rule.labels), "channels": rule.channels.all()}


def _channel_initial(channel: Channel | None) -> dict[str, Any] | None:
    if channel is None:
        return None
    same = ("name", "kind", "target", "secret", "enabled")
    facts = {name: getattr(channel, name) for name in same}
    return {**facts, "headers": lines_of(channel.headers)}


class PriceForm(SettingsForm):
    """Price and budget of a pair of clusters; an empty price removes both."""

    per_gb = forms.DecimalField(
        label="Price per GB", required=False, min_value=0, max_digits=12, decimal_places=6
    )
    currency = text_field("Currency", mono=False, max_length=3, placeholder="EUR")
    monthly_budget = forms.DecimalField(
        label="Budget per month", required=False, max_digits=14, decimal_places=2
    )

    def __init__(self, *args: Any, price: TransferPrice | None = None, **kwargs: Any) -> None:
        initial = {}
        if price is not None:
            initial = {
                "per_gb": price.per_gb.normalize(),
                "currency": price.currency,
                "monthly_budget": price.monthly_budget,
            }
        super().__init__(*args, initial=initial, **kwargs)
        self.fields["per_gb"].help_text = "Of 10^9 bytes sent to the target. Empty: no price."
        self.fields["monthly_budget"].help_text = "Empty: no budget, and no alert."

    def values(self) -> dict[str, Any]:
        return {
            "per_gb": self.cleaned_data["per_gb"],
            "currency": self.cleaned_data["currency"],
            "budget": self.cleaned_data["monthly_budget"],
        }
