"""Prometheus' text format, written line by line: 100,000 series as objects would take seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

# Prefix of the metrics of MirrorMaker 2's exporter.
MM2 = "kafka_connect_mirror_mirrorsourceconnector_"
RECORD_AGE = (f"{MM2}record_age_ms", "Age of the oldest record not replicated")
REPLICATION_LATENCY = (
    f"{MM2}replication_latency_ms",
    "From record timestamp to commit, in the last minute",
)


class Series:
    """One metric with a line for each known value. `labels` come from `labelled`."""

    def __init__(self, name: str, help_text: str, kind: str = "gauge") -> None:
        self.name = name
        self.lines = [f"# HELP {name} {help_text}\n# TYPE {name} {kind}"]

    def add(self, labels: str, value: float) -> None:
        # Sums from PostgreSQL are Decimals.
        self.lines.append(f"{self.name}{{{labels}}} {float(value)}")


class Family:
    """Mean, lowest and highest; the mean under the plain name too, as boards of MirrorMaker 2
    expect both."""

    def __init__(self, name: str, help_text: str) -> None:
        self.series = tuple(
            Series(f"{name}{end}", help_text) for end in ("", "_avg", "_min", "_max")
        )

    def add(self, labels: str, mean: float, low: float, high: float) -> None:
        for one, value in zip(self.series, (mean, mean, low, high), strict=True):
            one.add(labels, value)


@dataclasses.dataclass(frozen=True)
class Labels:
    """Labels of one flow: Understudy's, and those of MirrorMaker 2's exporter."""

    flow: str
    mm2: str

    @classmethod
    def of(cls, *, flow: str, source: str, target: str) -> Labels:
        ends = labelled(source=source, target=target)
        return cls(f"{labelled(flow=flow)},{ends}", ends)


def labelled(**labels: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def text_of(series: Iterable[Series]) -> bytes:
    """Encode metric by metric, so that the whole text is in memory only once."""
    return b"".join(["\n".join([*one.lines, ""]).encode() for one in series])


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value
