"""Prometheus' text format, written line by line: 100,000 series as objects would take seconds."""

from __future__ import annotations

from collections.abc import Iterable


class Series:
    """One metric with a line for each known value. `labels` come from `labelled`."""

    def __init__(self, name: str, help_text: str, kind: str = "gauge") -> None:
        self.name = name
        self.lines = [f"# HELP {name} {help_text}\n# TYPE {name} {kind}"]

    def add(self, labels: str, value: float) -> None:
        # Sums from PostgreSQL are Decimals.
        self.lines.append(f"{self.name}{{{labels}}} {float(value)}")

    @property
    def has_values(self) -> bool:
        return len(self.lines) > 1


def labelled(**labels: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def encoded(series: Iterable[Series]) -> list[bytes]:
    """Encode metric by metric, so that the whole text is in memory only once."""
    return ["\n".join([*one.lines, ""]).encode() for one in series]


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value
