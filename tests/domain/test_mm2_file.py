"""What MM2 passes to workers and connectors from one file, as its own classes do."""

from __future__ import annotations

from typing import Any

import pytest

from mirrors.domain.java_properties import read_properties
from mirrors.domain.migration.imports.mm2_precedence import (
    Entries,
    aliases,
    by_name,
    connector_settings,
    pairs,
    worker_settings,
)
from tests.domain.cases import golden

CASES = golden("mm2_file")["cases"]


def read(text: str) -> Entries:
    return by_name((line.number, line.key, line.value) for line in read_properties(text)[0])


def plain(entries: Entries) -> dict[str, str]:
    return {name: entry.value for name, entry in entries.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_each_flow_gets_what_mm2_would_give_it(case: dict[str, Any]) -> None:
    file, said = read(case["file"]), case["result"]
    assert sorted(aliases(file)) == sorted(said["clusters"])
    assert sorted(f"{s}->{t}" for s, t in pairs(file)) == sorted(p["flow"] for p in said["pairs"])
    for pair in said["pairs"]:
        source, target = pair["flow"].split("->")
        assert plain(worker_settings(file, source, target)) == pair["worker"]
        assert plain(connector_settings(file, source, target)) == pair["source_connector"]


def test_a_value_knows_the_line_that_gave_it() -> None:
    file = read("clusters=A,B\ntopics=x\nA->B.topics=y\nA->B.enabled=true\nA.consumer.a=1\n")
    connector = connector_settings(file, "A", "B")
    assert connector["topics"].number == 3
    assert connector["source.consumer.a"].number == 5
    assert connector["name"].number is None
