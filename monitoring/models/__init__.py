"""The rows of monitoring: what was measured, what is wrong, whom it was told."""

from monitoring.models.alerts import Alert, AlertRule, AlertState, Severity, Silence
from monitoring.models.channels import Channel, ChannelKind, Delivery, DeliveryState
from monitoring.models.history import Feed, LagSample
from monitoring.models.sources import ClusterSweep, FlowOutlook, PartitionRange

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
