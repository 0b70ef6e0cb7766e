"""Forms of clusters, runners and flows: shape only; the domain judges."""

from mirrors.forms.base import SettingsForm, field_of, lines_of, parse_lines
from mirrors.forms.clusters import ClusterForm
from mirrors.forms.drills import DrillForm, ObjectivesForm
from mirrors.forms.flows import FLOW_KEYS, FlowForm, OffsetForm
from mirrors.forms.runners import RunnerForm

__all__ = [
    "FLOW_KEYS",
    "ClusterForm",
    "DrillForm",
    "FlowForm",
    "ObjectivesForm",
    "OffsetForm",
    "RunnerForm",
    "SettingsForm",
    "field_of",
    "lines_of",
    "parse_lines",
]
