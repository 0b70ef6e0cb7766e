"""Models of monitoring: samples of lag, alerts, channels and deliveries, forecasts."""

from monitoring.models.alerts import Alert, AlertRule, AlertState, Severity, Silence
from monitoring.models.channels import Channel, ChannelKind, Delivery, DeliveryState
from monitoring.models.costs import CompressionReading, MonthlyUsage, TransferPrice
from monitoring.models.forecasts import ClusterSweep, FlowOutlook, PartitionRange
from monitoring.models.history import Feed, LagSample, MetricsPush
from monitoring.models.topic_history import FullStep, PartitionSample, TopicSample

__all__ = [
    "Alert",
    "AlertRule",
    "AlertState",
    "Channel",
    "ChannelKind",
    "ClusterSweep",
    "CompressionReading",
    "Delivery",
    "DeliveryState",
    "Feed",
    "FlowOutlook",
    "FullStep",
    "LagSample",
    "MetricsPush",
    "MonthlyUsage",
    "PartitionRange",
    "PartitionSample",
    "Severity",
    "Silence",
    "TopicSample",
    "TransferPrice",
]
