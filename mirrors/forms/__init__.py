"""Forms of clusters, runners and flows: shape only; the domain judges."""

from mirrors.forms.clusters import ClusterForm
from mirrors.forms.drills import DrillForm, ObjectivesForm
from mirrors.forms.flows import FLOW_KEYS, FlowForm
from mirrors.forms.offsets import OffsetForm
from mirrors.forms.runners import RunnerForm
from mirrors.forms.settings import SettingsForm, field_of, lines_of, parse_lines

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
