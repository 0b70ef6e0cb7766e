"""Measures the distance of a broker: round trips of small requests, and its socket buffers."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from mirrors.domain.flows.speed_limits import FAR_MS
from mirrors.kafka.connection_test.report import BrokerReport
from mirrors.kafka.connection_test.stream_capacity import (
    RECEIVE,
    SEND,
    Distance,
    Ends,
    bytes_per_second,
    own_ends,
    positive,
    read_window,
    write_window,
)
from mirrors.kafka.protocol.connection import BrokerConnection

_TRIPS: Final = 5
# The first ones take longer on a busy machine. This leaves time for other brokers.
_AT_MOST_S: Final = 2.0
_BROKER: Final = 4


def measure(
    report: BrokerReport,
    connection: BrokerConnection,
    properties: Mapping[str, str],
    deadline: float,
) -> tuple[BrokerReport, Distance] | None:
    """The report with the figures; None if the broker throttles.

    A near broker's configs are not read: its buffers limit nothing, and reading needs a right.
    """
    trips = _round_trips(connection, deadline)
    if not trips:
        return None
    quickest, ends = min(trips), own_ends(properties)
    if quickest >= FAR_MS:
        ends = _with_broker_buffers(ends, connection, report.id, deadline)
    found = dataclasses.replace(
        report,
        rtt_ms=quickest,
        rtt_median_ms=statistics.median(trips),
        read_bytes_per_second=bytes_per_second(read_window(ends), quickest),
        write_bytes_per_second=bytes_per_second(write_window(ends), quickest),
    )
    return found, Distance(broker=report.id, rtt_ms=quickest, ends=ends)


def _round_trips(connection: BrokerConnection, deadline: float) -> list[float]:
    """Milliseconds of several small requests; none if the broker throttles."""
    trips: list[float] = []
    began = time.monotonic()
    while len(trips) < _TRIPS and time.monotonic() - began < _AT_MOST_S:
        sent = time.monotonic()
        reply = connection.call(MetadataRequest(topics=[]), deadline, newest=12)
        if getattr(reply, "throttle_time_ms", 0):
            return []
        trips.append(round((time.monotonic() - sent) * 1000, 2))
    return trips


def _with_broker_buffers(
    ends: Ends, connection: BrokerConnection, broker: int, deadline: float
) -> Ends:
    """The ends with the broker's buffers, if the principal may read its configs."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=_BROKER,
                resource_name=str(broker),
                configuration_keys=[RECEIVE, SEND],
            )
        ],
        include_synonyms=False,
        include_documentation=False,
    )
    reply: Any = connection.call(request, deadline)
    values = {
        row.name: row.value
        for result in reply.results
        if not result.error_code
        for row in result.configs
    }
    return dataclasses.replace(
        ends,
        broker_receive=positive(values.get(RECEIVE)),
        broker_send=positive(values.get(SEND)),
    )
