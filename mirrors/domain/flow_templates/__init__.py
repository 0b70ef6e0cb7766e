"""Templates: the flows of a pair, a hub, a fan-out or a chain, planned together."""

from mirrors.domain.flow_templates.plans import PlannedFlow, TemplatePlan, plan_template
from mirrors.domain.flow_templates.routes import TEMPLATES, Template, TemplateKind, kind_of

__all__ = [
    "TEMPLATES",
    "PlannedFlow",
    "Template",
    "TemplateKind",
    "TemplatePlan",
    "kind_of",
    "plan_template",
]
