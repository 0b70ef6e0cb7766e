"""Reads MM2's offset syncs, and verifies pairs of offsets by the content of both sides."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.comparison.alignment import Row
from mirrors.domain.comparison.record_content import row_of
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.internal_topics.encoding import MalformedRecord
from mirrors.domain.internal_topics.records import OffsetSync
from mirrors.domain.offsets.mm2_bounds import Pair
from mirrors.domain.specs import ClusterSpec, FlowSpec
from mirrors.kafka.admin.topics import Admin
from mirrors.kafka.internal_topics.topic import stream_to_end
from mirrors.kafka.reading.comparison import RangeReader

log = logging.getLogger(__name__)

T = TypeVar("T")

# Pairs kept of a partition; a longer past is kept at every other pair.
MAX_PAIRS = 4_000
# Source offsets in which the record of a checkpoint is looked for.
MAX_SEARCHED_OFFSETS = 2_000
# Offsets read behind each side of a pair: the record after it must be the same as well.
FOLLOWING_OFFSETS = 32
# Records in a row that must agree where one is looked for.
MATCHING_RECORDS = 8


def read_pairs(
    topics: Iterable[tuple[ClusterSpec, str]],
    limits: Mapping[TopicPartition, int],
    *,
    deadline_s: float,
) -> dict[TopicPartition, list[Pair]]:
    """All syncs of these source partitions below their limits, in the order of the topics.

    A topic that is missing or cannot be read gives no syncs. One that is not read to its end in
    time gives those that were read.
    """
    found: dict[TopicPartition, list[Pair]] = {}
    for spec, topic in topics:
        until = time.monotonic() + deadline_s / 2
        try:
            _read(spec, topic, limits, found, until)
        except UnderstudyError as error:
            log.info("%s on %s: %s", topic, spec.alias, error.message)
    return found


def starts_of(
    spec: FlowSpec, remote: Mapping[TopicPartition, TopicPartition], *, deadline_s: float
) -> dict[TopicPartition, Pair]:
    """Both log starts of each partition: a pair where everything was copied and nothing deleted.

    MM2 may send no sync for the first records of a partition.
    """
    with Admin(spec.source) as source, Admin(spec.target) as target:
        here = source.list_offsets(remote, "earliest", deadline_s=deadline_s / 2).done
        there = target.list_offsets(remote.values(), "earliest", deadline_s=deadline_s / 2).done
    return {
        at: Pair(here[at], there[tp]) for at, tp in remote.items() if at in here and tp in there
    }


def _read(
    spec: ClusterSpec,
    topic: str,
    limits: Mapping[TopicPartition, int],
    found: dict[TopicPartition, list[Pair]],
    until: float,
) -> None:
    with Admin(spec, client_id="understudy-offset-syncs") as admin:
        left = max(0.5, until - time.monotonic())
        for record in stream_to_end(admin, topic, deadline_s=left):
            try:
                row = OffsetSync.read(record.key, record.value)
            except MalformedRecord:
                continue
            where = (row.topic, row.partition)
            if 0 <= row.upstream < limits.get(where, 0) and row.downstream >= 0:
                pairs = found.setdefault(where, [])
                pairs.append(Pair(row.upstream, row.downstream))
                if len(pairs) > MAX_PAIRS:
                    del pairs[: MAX_PAIRS // 2 : 2]


def compare_pairs(
    spec: FlowSpec,
    pairs: Mapping[TopicPartition, Pair],
    remote: Mapping[TopicPartition, TopicPartition],
    *,
    deadline_s: float,
) -> dict[TopicPartition, bool]:
    """Return whether each pair names copies of one record, without partitions that cannot be read.

    A record that retention has deleted on one side proves nothing: such a pair is false.
    """
    until = time.monotonic() + deadline_s
    with Admin(spec.source) as source, Admin(spec.target) as target:
        left = deadline_s / 3
        here = source.list_offsets(pairs, "earliest", deadline_s=left).done
        there = target.list_offsets(remote.values(), "earliest", deadline_s=left).done
        kinds = _topic_properties(source, target, remote, left)
    verdicts: dict[TopicPartition, bool] = {}
    open_pairs: dict[TopicPartition, Pair] = {}
    for tp, pair in pairs.items():
        if tp not in here or remote[tp] not in there:
            continue
        if pair.upstream < here[tp] or pair.downstream < there[remote[tp]]:
            verdicts[tp] = False
        else:
            open_pairs[tp] = pair
    wanted = {
        at: (pair.upstream, pair.upstream + FOLLOWING_OFFSETS) for at, pair in open_pairs.items()
    }
    copies = {
        remote[at]: (pair.downstream, pair.downstream + FOLLOWING_OFFSETS)
        for at, pair in open_pairs.items()
    }
    target_rows = _rows(spec.target, copies, until, committed=True)

    def judge(tp: TopicPartition, source_rows: list[Row]) -> bool:
        keeps_time, compacted = kinds.get(tp, (True, False))
        copy = target_rows[remote[tp]]
        return _is_same(open_pairs[tp], source_rows, copy, keeps_time=keeps_time, alone=compacted)

    wanted = {at: window for at, window in wanted.items() if remote[at] in target_rows}
    return verdicts | _compare_windows(spec.source, wanted, until, judge)


def locate_pairs(
    spec: FlowSpec,
    found: Mapping[TopicPartition, Pair],
    remote: Mapping[TopicPartition, TopicPartition],
    *,
    deadline_s: float,
) -> dict[TopicPartition, Pair | None]:
    """The pair behind each checkpoint of MM2; None if no content shows it.

    - MM2 derives a checkpoint from a sync at or below the group's offset. The record right before
      the checkpoint's target offset is the copy of one before its source offset.
    - Of several records with that content the last one counts: a bound from it holds for the
      fewest offsets.
    - Partitions that cannot be read are left out.
    """
    until = time.monotonic() + deadline_s
    with Admin(spec.source) as source, Admin(spec.target) as target:
        left = deadline_s / 3
        here = source.list_offsets(found, "earliest", deadline_s=left).done
        there = target.list_offsets(remote.values(), "earliest", deadline_s=left).done
        kinds = _topic_properties(source, target, remote, left)
    known = {
        at: pair
        for at, pair in found.items()
        if pair.downstream > there.get(remote[at], pair.downstream)
        and pair.upstream > here.get(at, 0)
    }
    searched = {
        at: (max(here[at], pair.upstream - MAX_SEARCHED_OFFSETS), pair.upstream + FOLLOWING_OFFSETS)
        for at, pair in known.items()
        if at in here
    }
    copies = {
        remote[at]: (pair.downstream - 1, pair.downstream + FOLLOWING_OFFSETS)
        for at, pair in known.items()
    }
    target_rows = _rows(spec.target, copies, until, committed=True)

    def judge(tp: TopicPartition, source_rows: list[Row]) -> Pair | None:
        keeps_time, alone = kinds.get(tp, (True, False))
        copy = target_rows[remote[tp]]
        return _locate_pair(known[tp], source_rows, copy, keeps_time=keeps_time, alone=alone)

    searched = {at: window for at, window in searched.items() if remote[at] in target_rows}
    located: dict[TopicPartition, Pair | None] = {at: None for at in found if at not in known}
    return located | _compare_windows(spec.source, searched, until, judge)


def _locate_pair(
    pair: Pair, source_rows: list[Row], target_rows: list[Row], *, keeps_time: bool, alone: bool
) -> Pair | None:
    for at in range(len(source_rows) - 1, -1, -1):
        if source_rows[at].offset >= pair.upstream:
            continue
        made_of = Pair(source_rows[at].offset, pair.downstream - 1)
        if _is_same(
            made_of, source_rows[at : at + 2], target_rows, keeps_time=keeps_time, alone=alone
        ):
            return made_of
    return None


def find_copies(
    spec: FlowSpec,
    wanted: Mapping[TopicPartition, tuple[int, int]],
    remote: Mapping[TopicPartition, TopicPartition],
    *,
    most: int = MAX_SEARCHED_OFFSETS,
    deadline_s: float,
) -> dict[TopicPartition, Pair | None]:
    """The first copy of a source record at or after a target offset, for (record, offset).

    - None if it is not among the next `most` offsets. Partitions that cannot be read are left
      out.
    - The first record with equal content is never after the true copy, unless compaction removed
      that one. So nothing is found in a compacted topic.
    - The following records must be equal too.
    """
    until = time.monotonic() + deadline_s
    with Admin(spec.source) as source, Admin(spec.target) as target:
        kinds = _topic_properties(source, target, remote, deadline_s / 3)
    here = {at: (offset, offset + FOLLOWING_OFFSETS) for at, (offset, _) in wanted.items()}
    there = {
        remote[at]: (start, start + most + FOLLOWING_OFFSETS) for at, (_, start) in wanted.items()
    }
    target_rows = _rows(spec.target, there, until, committed=True)

    def judge(tp: TopicPartition, source_rows: list[Row]) -> Pair | None:
        copy, kind = target_rows[remote[tp]], kinds.get(tp, (True, False))
        return _find_copy(wanted[tp][0], source_rows, copy, kind)

    here = {at: window for at, window in here.items() if remote[at] in target_rows}
    return _compare_windows(spec.source, here, until, judge)


def _compare_windows(
    spec: ClusterSpec,
    windows: Mapping[TopicPartition, tuple[int, int]],
    until: float,
    judge: Callable[[TopicPartition, list[Row]], T],
) -> dict[TopicPartition, T]:
    """MM2 reads uncommitted records by default. Where those do not match, committed ones may."""
    found: dict[TopicPartition, T] = {}
    for committed in (False, True):
        left = {tp: window for tp, window in windows.items() if not found.get(tp)}
        if left and time.monotonic() < until:
            rows = _rows(spec, left, until, committed=committed)
            found |= {tp: judge(tp, source_rows) for tp, source_rows in rows.items()}
    return found


def _find_copy(
    offset: int, source_rows: list[Row], target_rows: list[Row], kind: tuple[bool, bool]
) -> Pair | None:
    keeps_time, is_compacted = kind
    if is_compacted or not source_rows or source_rows[0].offset != offset:
        return None
    matches = (
        at
        for at, row in enumerate(target_rows)
        if _is_same_record(source_rows[0], row, keeps_time=keeps_time)
    )
    if (first := next(matches, None)) is None:
        return None
    following = zip(
        source_rows[:MATCHING_RECORDS], target_rows[first : first + MATCHING_RECORDS], strict=False
    )
    is_copy = all(_is_same_record(one, two, keeps_time=keeps_time) for one, two in following)
    return Pair(offset, target_rows[first].offset) if is_copy else None


def _topic_properties(
    source: Admin, target: Admin, remote: Mapping[TopicPartition, TopicPartition], deadline_s: float
) -> dict[TopicPartition, tuple[bool, bool]]:
    """For each partition: whether copies keep the timestamp, and whether either side is
    compacted."""
    names = {tp[0] for tp in remote}, {tp[0] for tp in remote.values()}
    source_topics = source.snapshot(names[0], now=0, deadline_s=deadline_s).topics
    target_topics = target.snapshot(names[1], now=0, deadline_s=deadline_s).topics
    found = {}
    for tp, (name, _) in remote.items():
        sides = [
            side for side in (source_topics.get(tp[0]), target_topics.get(name)) if side is not None
        ]
        copy = target_topics.get(name)
        found[tp] = (
            copy is None or copy.config("message.timestamp.type") != "LogAppendTime",
            any("compact" in (side.config("cleanup.policy") or "") for side in sides),
        )
    return found


def _rows(
    spec: ClusterSpec,
    windows: Mapping[TopicPartition, tuple[int, int]],
    until: float,
    *,
    committed: bool,
) -> dict[TopicPartition, list[Row]]:
    """The records of each window that could be read completely."""
    found: dict[TopicPartition, list[Row]] = {tp: [] for tp in windows}
    with RangeReader(spec, windows, committed=committed) as side:
        while side.open and time.monotonic() < until:
            for tp, part in side.read().items():
                found[tp] += [row_of(one, with_timestamp=True) for one in part.records]
        unread = {*side.open, *side.failed}
    return {tp: rows for tp, rows in found.items() if tp not in unread}


def _is_same(
    pair: Pair, source_rows: list[Row], target_rows: list[Row], *, keeps_time: bool, alone: bool
) -> bool:
    """Whether both sides have the pair's record, and the same next record where both have one."""
    if not source_rows or not target_rows:
        return False
    if (source_rows[0].offset, target_rows[0].offset) != (pair.upstream, pair.downstream):
        return False
    if not _is_same_record(source_rows[0], target_rows[0], keeps_time=keeps_time):
        return False
    if alone or len(source_rows) == 1 or len(target_rows) == 1:
        return True
    return _is_same_record(source_rows[1], target_rows[1], keeps_time=keeps_time)


def _is_same_record(one: Row, two: Row, *, keeps_time: bool) -> bool:
    same_time = not keeps_time or one.parts[3] == two.parts[3]
    return one.parts[:3] == two.parts[:3] and same_time
