"""URLs of the overview, topology, schedules, alerts and charts."""

from django.urls import path, register_converter
from django.urls.converters import StringConverter

from monitoring.domain.alerts.rules import KINDS
from monitoring.history.charts import CHARTS
from monitoring.views import (
    alert_rules,
    alerts,
    charts,
    costs,
    overview,
    schedules,
    topics,
    topology,
)
from monitoring.views.flow_alerts import show_flow_alerts


class ChartConverter(StringConverter):
    """The name of a chart."""

    regex = "|".join(CHARTS)


class KindConverter(StringConverter):
    """The kind of an alert rule."""

    regex = "|".join(KINDS)


register_converter(ChartConverter, "chart")
register_converter(KindConverter, "kind")

urlpatterns = [
    path("", overview.overview, name="overview"),
    path("topology/", topology.show_topology, name="topology"),
    path("schedules/", schedules.show_schedules, name="schedules"),
    path("alerts/", alerts.list_alerts, name="alerts"),
    path("alerts/rules/", alerts.show_rules, name="alert-rules"),
    path("alerts/rules/add/", alert_rules.add_rule, name="alert-rule-add"),
    path("alerts/rules/<int:pk>/edit/", alert_rules.edit_rule, name="alert-rule-edit"),
    path("alerts/rules/<int:pk>/delete/", alert_rules.delete_rule, name="alert-rule-delete"),
    path("alerts/channels/add/", alert_rules.add_channel, name="channel-add"),
    path("alerts/channels/<int:pk>/edit/", alert_rules.edit_channel, name="channel-edit"),
    path("alerts/channels/<int:pk>/delete/", alert_rules.delete_channel, name="channel-delete"),
    path("alerts/silences/add/", alert_rules.add_silence, name="silence-add"),
    path("alerts/runbooks/<kind:kind>/", alerts.show_runbook, name="runbook"),
    path("alerts/<int:pk>/acknowledge/", alerts.acknowledge, name="alert-acknowledge"),
    path("alerts/<int:pk>/silence/", alerts.silence, name="alert-silence"),
    path("alerts/silences/<int:pk>/end/", alerts.end_silence, name="silence-end"),
    path("alerts/channels/<int:pk>/test/", alerts.test_channel, name="channel-test"),
    path("alerts/deliveries/<int:pk>/retry/", alerts.retry_delivery, name="delivery-retry"),
    path(
        "flows/<int:pk>/topics/<path:topic>/configs/",
        topics.read_configs,
        name="flow-topic-configs",
    ),
    path("flows/<int:pk>/topics/<path:topic>/", topics.show_topic, name="flow-topic"),
    path("costs/", costs.list_costs, name="costs"),
    path("flows/<int:pk>/cost/", costs.show_cost, name="flow-cost"),
    path("flows/<int:pk>/cost/compression/", costs.measure_compression, name="flow-compression"),
    path("flows/<int:pk>/alerts/", show_flow_alerts, name="flow-alerts"),
    path("flows/<int:pk>/charts/", charts.show_charts, name="flow-charts"),
    path("flows/<int:pk>/charts/<chart:chart>/", charts.figure, name="flow-figure"),
]
