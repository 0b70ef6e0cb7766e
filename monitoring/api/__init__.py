"""REST of monitoring: alerts, rules, channels, deliveries, silences, forecasts."""

from monitoring.api.alert_rules import RuleViewSet
from monitoring.api.alerts import AlertViewSet, SilenceViewSet
from monitoring.api.channels import ChannelViewSet, DeliveryViewSet
from monitoring.api.forecasts import OutlookViewSet

__all__ = [
    "AlertViewSet",
    "ChannelViewSet",
    "DeliveryViewSet",
    "OutlookViewSet",
    "RuleViewSet",
    "SilenceViewSet",
]
