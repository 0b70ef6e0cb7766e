"""Prometheus' text format, written line by line: 100,000 series as objects would take seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


class Series:
    """One metric with a line for each known value. `labels` come from `labelled`."""

    def __init__(self, name: str, help_text: str, kind: str = "gauge") -> None:
        self.name = name
        self.help_text = help_text
        self.kind = kind
        self.lines = [f"# HELP {name} {help_text}\n# TYPE {name} {kind}"]

    def add(self, labels: str, value: float) -> None:
        # Sums from PostgreSQL are Decimals.
        self.lines.append(f"{self.name}{{{labels}}} {float(value)}")

    def samples(self) -> Iterator[tuple[dict[str, str], float]]:
        """The labels and the value of each line, as a reader of the text gets them."""
        for line in self.lines[1:]:
            labels, _, value = line[len(self.name) + 1 :].rpartition("} ")
            yield {name: _unescaped(text) for name, text in _LABEL.findall(labels)}, float(value)

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


def _unescaped(value: str) -> str:
    if "\\" not in value:
        return value
    return _ESCAPE.sub(lambda found: "\n" if found[1] == "n" else found[1], value)
