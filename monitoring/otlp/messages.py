"""OTLP messages (protobuf, opentelemetry-proto): requests with metrics, and the answer to one.

Names, labels and values are those of Prometheus' text. A counter is a cumulative, monotonic sum
whose start is unknown (0), a gauge a gauge. Names have the units, so the field `unit` is empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as service
from opentelemetry.proto.metrics.v1 import metrics_pb2

from monitoring.prometheus.text_format import Series

# About 1 MB: receivers limit the size of a request, some to 4 MB.
MOST_POINTS = 4000
SCOPE = "understudy"


@dataclasses.dataclass(frozen=True)
class Request:
    body: bytes
    points: int


def requests(
    series: Iterable[Series], *, resource: Mapping[str, str], at_ns: int, most: int = MOST_POINTS
) -> Iterator[Request]:
    """All values of one moment, in requests of at most `most` values."""
    message, count = _empty(resource), 0
    for one in series:
        points: Any = None
        for labels, value in one.samples():
            if count == most:
                yield Request(message.SerializeToString(), count)
                message, count, points = _empty(resource), 0, None
            if points is None:
                points = _points_of(message, one)
            point = points.add(time_unix_nano=at_ns, as_double=value)
            _set(point.attributes, labels)
            count += 1
    if count:
        yield Request(message.SerializeToString(), count)


def rejected(answer: bytes) -> tuple[int, str]:
    """How many values the receiver did not take, and its reason. An empty answer: it took all."""
    try:
        part = service.ExportMetricsServiceResponse.FromString(answer).partial_success
    except DecodeError:
        # Receivers that respond with JSON, or a proxy before one; the status says success.
        return 0, ""
    return part.rejected_data_points, part.error_message


def _empty(resource: Mapping[str, str]) -> Any:
    message = service.ExportMetricsServiceRequest()
    of_resource = message.resource_metrics.add()
    _set(of_resource.resource.attributes, resource)
    of_resource.scope_metrics.add().scope.name = SCOPE
    return message


def _points_of(message: Any, series: Series) -> Any:
    metric = (
        message.resource_metrics[0]
        .scope_metrics[0]
        .metrics.add(name=series.name, description=series.help_text)
    )
    if series.kind != "counter":
        return metric.gauge.data_points
    metric.sum.is_monotonic = True
    metric.sum.aggregation_temporality = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
    return metric.sum.data_points


def _set(attributes: Any, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        attributes.add(key=name).value.string_value = value
