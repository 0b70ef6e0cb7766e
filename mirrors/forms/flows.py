"""The form of a flow: common keys as fields, all others as key=value text."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms

from mirrors.domain.patterns.renames import RENAME
from mirrors.domain.settings.flow_control import (
    BANDWIDTH,
    HIGH,
    LOW,
    OVERLAP,
    SCHEDULE,
    SKIP,
    START,
    UNTIL,
    WINDOW,
    ZONE,
)
from mirrors.domain.settings.table import DEFAULT_POLICY, IDENTITY_POLICY, KEYS
from mirrors.domain.transforms import rules
from mirrors.domain.transforms.functions import COLUMNS, HELPERS
from mirrors.forms.base import SettingsForm, field_of, lines_of, parse_lines, text_field
from mirrors.models import Cluster, Flow, Runner
from mirrors.models.access.grants import choosable, seen

SCHEMA_KEYS = (
    "sync.schemas.enabled",
    "sync.schemas.interval.seconds",
    "sync.schemas.subjects",
    "sync.schemas.subjects.exclude",
    "sync.schemas.subject.format",
    "sync.schemas.ids",
    "sync.schemas.missing",
)
# Keys of a flow with a field of their own, in the order of the page; all others are key=value text.
FLOW_KEYS = (
    "topics",
    "topics.exclude",
    SKIP,
    "replication.policy.class",
    "replication.policy.separator",
    RENAME,
    "replication.factor",
    START,
    UNTIL,
    SCHEDULE,
    ZONE,
    WINDOW,
    "delivery",
    BANDWIDTH,
    OVERLAP,
    HIGH,
    LOW,
    "tasks.max",
    "refresh.topics.interval.seconds",
    "commit.interval.ms",
    "groups",
    "groups.exclude",
    "sync.group.offsets.enabled",
    "sync.group.offsets.interval.seconds",
    "emit.checkpoints.enabled",
    "emit.checkpoints.interval.seconds",
    "sync.topic.acls.enabled",
    "emit.heartbeats.enabled",
    "emit.heartbeats.interval.seconds",
    *SCHEMA_KEYS,
)
# Switches: a choice of on and off.
_SWITCHES = (
    "sync.group.offsets.enabled",
    "emit.checkpoints.enabled",
    "sync.topic.acls.enabled",
    "emit.heartbeats.enabled",
    "sync.schemas.enabled",
)
# The first choice leaves the key unset, so that a later default reaches the flow.
_CHOICES: dict[str, tuple[tuple[str, str], ...]] = {
    "replication.policy.class": (
        ("", "By default: alias and separator in front"),
        (DEFAULT_POLICY, "Default policy: alias and separator in front"),
        (IDENTITY_POLICY, "Identity policy: the same name"),
    ),
    "delivery": (
        ("", "By default: exactly once"),
        ("exactly_once", "Exactly once"),
        ("at_least_once", "At least once"),
    ),
    SKIP: (
        ("", "By default: replicated too"),
        ("false", "Replicated too"),
        ("true", "Excluded"),
    ),
    "sync.schemas.ids": (
        ("", "By default: kept where the target allows it"),
        ("auto", "Kept where the target allows it"),
        ("keep", "Kept, or not registered"),
        ("map", "Given by the target"),
    ),
    "sync.schemas.missing": (
        ("", "By default: wait for it"),
        ("wait", "Wait for it"),
        ("fail", "Fail, as on_error of the rule says"),
    ),
}
_CHOICES |= {
    key: (
        ("", f"By default: {'on' if KEYS[key].default == 'true' else 'off'}"),
        ("true", "On"),
        ("false", "Off"),
    )
    for key in _SWITCHES
}
_LABELS = {
    "groups": "Consumer groups",
    "groups.exclude": "Excluded groups",
    "sync.group.offsets.enabled": "Synchronize group offsets",
    "sync.group.offsets.interval.seconds": "Synchronize them every (seconds)",
    "emit.checkpoints.enabled": "Write checkpoints",
    "emit.checkpoints.interval.seconds": "Write them every (seconds)",
    "sync.topic.acls.enabled": "Synchronize ACLs",
    "emit.heartbeats.enabled": "Write heartbeats",
    "emit.heartbeats.interval.seconds": "Write heartbeats every (seconds)",
    "sync.schemas.enabled": "Synchronize schemas",
    "sync.schemas.interval.seconds": "Synchronize schemas every (seconds)",
    "sync.schemas.subjects": "Subjects",
    "sync.schemas.subjects.exclude": "Excluded subjects",
    "sync.schemas.subject.format": "Name of a subject on the target",
    "sync.schemas.ids": "Ids of schemas",
    "sync.schemas.missing": "Records whose schema is missing on the target",
    "topics": "Topics",
    "topics.exclude": "Excluded topics",
    SKIP: "Already replicated records",
    "replication.policy.class": "Names of remote topics",
    "replication.policy.separator": "Separator",
    RENAME: "Other names",
    "replication.factor": "Replication factor",
    START: "Start from",
    UNTIL: "Run until",
    SCHEDULE: "Schedule",
    ZONE: "Time zone of the schedule",
    WINDOW: "Window (minutes)",
    "delivery": "Delivery",
    BANDWIDTH: "Bandwidth limit (bytes/s)",
    OVERLAP: "Repeated bytes per second, for sooner live records",
    HIGH: "High-priority topics",
    LOW: "Low-priority topics",
    "tasks.max": "Parallelism",
    "refresh.topics.interval.seconds": "Look for new topics every (seconds)",
    "commit.interval.ms": "Commit every (ms)",
}
# What applies if a key without a default is not set.
_UNSET = {
    "replication.factor": "2, or fewer if there are fewer brokers",
    UNTIL: "no end",
    SCHEDULE: "no schedule",
    ZONE: "UTC",
    WINDOW: "no window",
    BANDWIDTH: "no limit",
    HIGH: "no topic",
    LOW: "no topic",
    "sync.schemas.subjects.exclude": "no subject",
    RENAME: "no other names",
}
# Keys whose format a default does not show. Kafka's tool prints one offset a line.
_SPELT_OUT = (START, UNTIL, SCHEDULE, ZONE, WINDOW, BANDWIDTH)
_BY_LINES = (START, UNTIL, RENAME)


_RULE_EXAMPLE = """\
[
  {
    "topics": "orders.*",
    "where": "get_json_object(cast(value as string), '$.region') = 'eu'",
    "value": "json_mask(json_drop(value, 'card'), null, 'name')"
  }
]"""


class FlowForm(SettingsForm):
    """Common keys as fields, all others as text. An empty field means the default."""

    source = forms.ModelChoiceField(
        Cluster.objects.all(), label="Source", to_field_name="alias", empty_label="Choose"
    )
    target = forms.ModelChoiceField(
        Cluster.objects.all(), label="Target", to_field_name="alias", empty_label="Choose"
    )
    runner = forms.ModelChoiceField(
        Runner.objects.none(),
        label="Runner",
        to_field_name="name",
        required=False,
        empty_label="The default runner",
    )
    transforms = text_field(
        "Rules on records",
        area=12,
        placeholder=_RULE_EXAMPLE,
        help_text="A JSON list; the first rule that matches a topic applies. Expressions are "
        "Spark SQL and may have several lines.",
    )
    properties = text_field(
        "Further settings", area=6, placeholder="consumer.fetch.max.bytes=16777216"
    )

    def __init__(self, *args: Any, flow: Flow | None = None, **kwargs: Any) -> None:
        kwargs["initial"] = {**_flow_initial(flow), **kwargs.pop("initial", {})}
        super().__init__(*args, **kwargs)
        clusters = Cluster.objects.all()
        for name in ("source", "target"):
            # The clusters of a flow do not change, and others may be another team's.
            if flow is None:
                rows = choosable(clusters)
            else:
                rows = clusters.filter(pk=getattr(flow, f"{name}_id"))
            self.fields[name].queryset = rows  # type: ignore[attr-defined]
        runners = Runner.objects.filter(retired_at=None)
        self.fields["runner"].queryset = seen(runners)  # type: ignore[attr-defined]
        for key in FLOW_KEYS:
            self.fields[field_of(key)] = flow_field(key, (flow.properties if flow else {}).get(key))
        self.fields["properties"].help_text = (
            "One key=value per line: MirrorMaker 2's own names, and consumer.* and producer.* "
            "tuning."
        )
        if flow is not None:
            self.fields["source"].disabled = self.fields["target"].disabled = True

    # For the help below the field of rules.
    columns: ClassVar = COLUMNS
    helpers: ClassVar = HELPERS

    def clean_transforms(self) -> str:
        """The rules in one line, as they are stored."""
        text: str = self.cleaned_data["transforms"]
        try:
            return rules.format_rules(rules.parse_rules(text))
        except rules.InvalidRule as error:
            raise forms.ValidationError(f"Rules on records: {error}.") from None

    def clean_properties(self) -> dict[str, str]:
        found = parse_lines(self.cleaned_data["properties"])
        twice = [key for key in (*FLOW_KEYS, rules.TRANSFORMS) if key in found]
        if twice:
            raise forms.ValidationError([f"{key} has its own field above." for key in twice])
        return found

    def settings(self) -> dict[str, str]:
        typed = {key: self.cleaned_data.get(field_of(key), "").strip() for key in FLOW_KEYS}
        for key in _BY_LINES:
            lines = (line.strip().removesuffix(",") for line in typed[key].splitlines())
            typed[key] = ",".join(line for line in lines if line)
        typed[rules.TRANSFORMS] = self.cleaned_data.get(rules.TRANSFORMS, "")
        return {
            **{key: text for key, text in typed.items() if text},
            **self.cleaned_data["properties"],
        }


def _flow_initial(flow: Flow | None) -> dict[str, Any]:
    if flow is None:
        return {}
    rest = dict(flow.properties)
    typed = {field_of(key): rest.pop(key, "") for key in FLOW_KEYS}
    stored = rules.parse_rules(rest.pop(rules.TRANSFORMS, ""))
    typed[rules.TRANSFORMS] = rules.format_rules(stored, indent=2)
    chosen = {"source": flow.source, "target": flow.target, "runner": flow.runner}
    return {**typed, **chosen, "properties": lines_of(rest)}


def flow_field(key: str, now: str | None) -> forms.Field:
    known = KEYS[key]
    if choices := _CHOICES.get(key):
        if now and now not in dict(choices):
            choices = (*choices, (now, now))
        return forms.ChoiceField(
            label=_LABELS[key], required=False, choices=choices, help_text=known.meaning
        )
    default = known.default or _UNSET.get(key, "")
    area = (
        2
        if key in {"topics", "topics.exclude", "groups", "groups.exclude", HIGH, LOW, *_BY_LINES}
        else 0
    )
    hint = (
        f"{known.meaning} Takes {known.kind.description}." if key in _SPELT_OUT else known.meaning
    )
    return text_field(_LABELS[key], area=area, placeholder=default, help_text=hint)


class OffsetForm(forms.Form):
    use_required_attribute = False
    topic = text_field("Topic", required=True, max_length=249)
    partition = forms.IntegerField(label="Partition", min_value=0, max_value=2**31 - 1, initial=0)
    offset = forms.IntegerField(label="Offset", min_value=0, max_value=2**63 - 1)
