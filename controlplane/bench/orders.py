"""What each run is ordered to copy: the same work for everybody, under names that no run shares."""

from __future__ import annotations

from controlplane.bench.brokers import Brokers
from controlplane.bench.cells import Cell
from controlplane.bench.datasets import Data
from controlplane.bench.systems import Link, Order


def make_order(cell: Cell, brokers: Brokers, data: Data, number: int, *, live: bool) -> Order:
    """The same work for everybody, under aliases that no other run has."""
    topics = [[topic] for topic in data.topics]
    if live:
        topics[0].append(data.live)
    links = tuple(
        Link(
            source_alias=f"r{number}s{index}",
            target_alias=f"r{number}t{index}",
            topics=tuple(names),
        )
        for index, names in enumerate(topics)
    )
    return Order(
        source=brokers.secure_source if cell.tls else brokers.source,
        target=brokers.secure_target if cell.tls else brokers.target,
        ca=brokers.ca if cell.tls else None,
        links=links,
        codec=cell.shape.codec,
    )


def belongs(topic: str, aliases: set[str]) -> bool:
    """Whether one of the aliases stands in a topic's name, remote or internal."""
    return not aliases.isdisjoint(topic.replace("->", ".").split("."))
