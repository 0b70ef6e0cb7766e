"""Models of monitoring: samples of lag, alerts, channels and deliveries, forecasts."""

from monitoring.models.alerts import Alert, AlertRule, AlertState, Severity, Silence
from monitoring.models.channels import Channel, ChannelKind, Delivery, DeliveryState
from monitoring.models.forecasts import ClusterSweep, FlowOutlook, PartitionRange
from monitoring.models.history import Feed, LagSample

__all__ = [
    "Alert",
    "AlertRule",
    "AlertState",
    "Channel",
    "ChannelKind",
    "ClusterSweep",
    "Delivery",
    "DeliveryState",
    "Feed",
    "FlowOutlook",
    "LagSample",
    "PartitionRange",
    "Severity",
    "Silence",
]
