"""Prometheus' text format, written a line at a time: as objects, 100,000 series take seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

# What MirrorMaker 2's exporter puts before its names.
MM2 = "kafka_connect_mirror_mirrorsourceconnector_"


class Series:
    """One metric: a line for each value that is known. Its labels were written by `labelled`."""

    def __init__(self, name: str, says: str, kind: str = "gauge") -> None:
        self.name = name
        self.lines = [f"# HELP {name} {says}\n# TYPE {name} {kind}"]

    def add(self, labels: str, value: float) -> None:
        # A sum of PostgreSQL's is a Decimal.
        self.lines.append(f"{self.name}{{{labels}}} {float(value)}")


@dataclasses.dataclass(frozen=True)
class Labels:
    """What all series of one flow begin with: our labels, and those of MirrorMaker 2's exporter."""

    flow: str
    mm2: str

    @classmethod
    def of(cls, *, flow: str, source: str, target: str) -> Labels:
        ends = labelled(source=source, target=target)
        return cls(f"{labelled(flow=flow)},{ends}", ends)


def labelled(**labels: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def text_of(series: Iterable[Series]) -> bytes:
    """Metric by metric, so that nothing of the whole size is held more than once."""
    return b"".join(["\n".join([*one.lines, ""]).encode() for one in series])


def _escaped(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return value
