"""REST of monitoring: alerts, their rules, channels, silences, what was sent, outlooks."""

from monitoring.api.alerts import AlertViewSet, SilenceViewSet
from monitoring.api.channels import ChannelViewSet, DeliveryViewSet
from monitoring.api.outlook import OutlookViewSet
from monitoring.api.rules import RuleViewSet

__all__ = [
    "AlertViewSet",
    "ChannelViewSet",
    "DeliveryViewSet",
    "OutlookViewSet",
    "RuleViewSet",
    "SilenceViewSet",
]
