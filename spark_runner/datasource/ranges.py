"""Which offsets each Spark task reads: bounds by word, time or offset become ranges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.topics import Admin
from spark_runner.datasource.options import EARLIEST, LATEST, Bound, InvalidOption

# Seconds for each look at all partitions.
_DEADLINE_S = 60.0


@dataclasses.dataclass(frozen=True)
class Range:
    """Offsets of one partition of the read topic, from `first` up to but without `end`."""

    tp: TopicPartition
    first: int
    end: int


def find_ranges(
    spec: ClusterSpec, partitions: Iterable[TopicPartition], start: Bound, end: Bound
) -> list[Range]:
    """One range for each partition, which may be empty. The latest end is that of committed
    records.

    Raises UnderstudyError if the cluster does not answer, and InvalidOption for a partition that
    does not exist.
    """
    wanted = list(partitions)
    with Admin(spec) as admin:
        firsts = admin.list_offsets(wanted, EARLIEST, deadline_s=_DEADLINE_S).raise_first().done
        ends = admin.list_offsets(wanted, "stable", deadline_s=_DEADLINE_S).raise_first().done
        starts = _offsets(admin, wanted, start, {EARLIEST: firsts, LATEST: ends})
        stops = _offsets(admin, wanted, end, {EARLIEST: firsts, LATEST: ends})
    found = []
    for tp in wanted:
        first = max(starts.get(tp, firsts[tp]), firsts[tp])
        stop = min(stops.get(tp, ends[tp]), ends[tp])
        found.append(Range(tp, first, max(first, stop)))
    return found


def split(ranges: Iterable[Range], records: int) -> list[Range]:
    """Ranges of at most `records` offsets: one Spark task each."""
    return [
        Range(each.tp, first, min(first + records, each.end))
        for each in ranges
        for first in range(each.first, each.end, records)
    ]


def _offsets(
    admin: Admin,
    partitions: list[TopicPartition],
    bound: Bound,
    known: Mapping[str, Mapping[TopicPartition, int]],
) -> Mapping[TopicPartition, int]:
    if isinstance(bound, str):
        return known[bound]
    if isinstance(bound, int):
        return admin.list_offsets(partitions, bound, deadline_s=_DEADLINE_S).raise_first().done
    named = {(topic, number): at for topic, rows in bound.items() for number, at in rows.items()}
    if missing := sorted(named.keys() - set(partitions)):
        topic, number = missing[0]
        raise InvalidOption(f"The flow does not read {topic}-{number}, which an offset names.")
    return named
