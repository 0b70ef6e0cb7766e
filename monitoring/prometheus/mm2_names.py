"""MirrorMaker 2's metrics under its old names, its new ones (KIP-1280), or both: each flow says.

They are named as the usual exporter of JMX does in lower case: domain, type and attribute make the
name, the other properties of the MBean are labels. The new MBean is that of Connect's plugins, so
`connector` tells source and checkpoints apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Self

from mirrors.domain.settings.table import NEW_METRIC_NAMES, OLD_METRIC_NAMES, metric_names
from monitoring.prometheus.text_format import Series, labelled

SOURCE = "MirrorSourceConnector"
CHECKPOINT = "MirrorCheckpointConnector"
RECORD_AGE = ("record_age_ms", "Age of the oldest record not replicated")
REPLICATION_LATENCY = (
    "replication_latency_ms",
    "From record timestamp to commit, in the last minute",
)
# How one line begins, and where it is appended.
Start = tuple[Callable[[str], None], str]


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels of one flow: Understudy's, and those of MirrorMaker 2's exporter."""

    name: str
    flow: str
    mm2: str
    formats: tuple[str, ...]

    @classmethod
    def of(cls, flow: Any) -> Self:
        """`flow` has its displayed name as `label`."""
        ends = labelled(source=flow.source.alias, target=flow.target.alias)
        ours = f"{labelled(flow=flow.label)},{ends}"
        return cls(flow.label, ours, ends, metric_names(flow.properties))

    def connector(self, connector: str) -> str:
        return labelled(connector=f"{self.name}.{connector}", task="0")


class Mm2Metric:
    """One of MirrorMaker 2's metrics: a series of each name, with the flows that ask for it."""

    def __init__(self, name: str, help_text: str, connector: str = SOURCE) -> None:
        self._connector = connector
        self._old = Series(f"kafka_connect_mirror_{connector.lower()}_{name}", help_text)
        self._new = Series(f"kafka_connect_plugins_{name}", help_text)

    def starts(self, flow: Labels, more: str = "") -> list[Start]:
        """Return the beginnings of the flow's lines; the closing brace and the value follow."""
        found: list[Start] = []
        if OLD_METRIC_NAMES in flow.formats:
            found.append((self._old.lines.append, f"{self._old.name}{{{flow.mm2}{more}"))
        if NEW_METRIC_NAMES in flow.formats:
            labels = f"{flow.connector(self._connector)},{flow.mm2}"
            found.append((self._new.lines.append, f"{self._new.name}{{{labels}{more}"))
        return found

    def add(self, flow: Labels, value: float, more: str = "") -> None:
        """`more` are further labels, each with a comma before it."""
        for append, start in self.starts(flow, more):
            append(f"{start}}} {float(value)}")

    def series(self) -> Iterator[Series]:
        """Yield the series that have a value."""
        return (one for one in (self._old, self._new) if one.has_values)


class Mm2Family:
    """Mean, lowest and highest; the mean under the plain name too, as boards of MirrorMaker 2
    expect both."""

    def __init__(self, name: str, help_text: str, connector: str = SOURCE) -> None:
        ends = ("", "_avg", "_min", "_max")
        self.metrics = tuple(Mm2Metric(f"{name}{end}", help_text, connector) for end in ends)

    def add(self, flow: Labels, values: tuple[float, float, float], more: str = "") -> None:
        """`values` are mean, lowest and highest."""
        mean, low, high = values
        for one, value in zip(self.metrics, (mean, mean, low, high), strict=True):
            one.add(flow, value, more)

    def series(self) -> Iterator[Series]:
        for one in self.metrics:
            yield from one.series()
