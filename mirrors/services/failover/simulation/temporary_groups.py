"""Real consumers on the target: each group's offsets, read in a temporary group."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.errors import UnderstudyError
from mirrors.domain.failover.plan_types import GroupPartitionPlan
from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin.temporary_groups import create_group
from mirrors.kafka.connection.admin_client import Partial
from mirrors.kafka.reading.group_consumer import GroupReading, read_as_group

# Records to read per group-partition; offsets give the rest.
AFTER = 16
READERS = 4
GROUP_DEADLINE_S = 20.0
# After this time no further group is started, so that there is time to compare.
READ_S = 60.0
Key = tuple[str, str, int, str]  # group, source topic, partition, route
Readings = Partial[Key, GroupReading]
Tick = Callable[..., None]


def read_groups(
    *,
    target: ClusterSpec,
    prefix: str,
    group_partitions: Iterable[GroupPartitionPlan],
    read_to: Mapping[TopicPartition, int],
    tick: Tick,
) -> Readings:
    """The first records of each group. Some consumers run in parallel, each with one group.

    Groups for which no time is left are not read; all others are.
    """
    by_group: dict[str, list[GroupPartitionPlan]] = {}
    for group_partition in group_partitions:
        if group_partition.downstream_offset is not None:
            by_group.setdefault(group_partition.group, []).append(group_partition)
    result: Readings = Partial()
    stop = threading.Event()
    pool = ThreadPoolExecutor(READERS, thread_name_prefix="simulation")
    try:
        chosen = {
            pool.submit(_read_group, target, f"{prefix}{number}", rows, read_to, stop): rows
            for number, rows in enumerate(by_group.values())
        }
        waiting = set(chosen)
        tick(groups=len(by_group), groups_read=0)
        until = time.monotonic() + READ_S
        while waiting:
            ended, waiting = wait(waiting, timeout=0.3, return_when=FIRST_COMPLETED)
            if time.monotonic() >= until:
                waiting -= {future for future in waiting if future.cancel()}
            for future in ended:
                part = future.result()
                result.done |= part.done
                result.failed |= part.failed
            tick(groups_read=len(by_group) - len(waiting))
        late = [row for future, rows in chosen.items() if future.cancelled() for row in rows]
        result.failed |= {row.key: _late() for row in late}
    finally:
        # An abort ends the consumers at their next check, before the groups are deleted.
        stop.set()
        pool.shutdown(cancel_futures=True)
    return result


def _read_group(
    target: ClusterSpec,
    name: str,
    rows: list[GroupPartitionPlan],
    read_to: Mapping[TopicPartition, int],
    stop: threading.Event,
) -> Readings:
    result: Readings = Partial()
    keys = {(row.remote_topic, row.partition): row.key for row in rows}
    starts = {(row.remote_topic, row.partition): row.downstream_offset or 0 for row in rows}
    try:
        _look(stop)
        made = create_group(target, name, starts, deadline_s=GROUP_DEADLINE_S)
        result.failed = {keys[tp]: error for tp, error in made.failed.items()}
        ends = {tp: read_to.get(tp, starts[tp]) for tp in made.done}
        seen = read_as_group(
            target,
            name,
            ends,
            at_most=AFTER,
            deadline_s=GROUP_DEADLINE_S,
            tick=lambda: _look(stop),
        )
    except UnderstudyError as error:
        result.failed |= dict.fromkeys(keys.values(), error)
        return result
    result.done = {keys[tp]: reading for tp, reading in seen.done.items()}
    result.failed |= {keys[tp]: error for tp, error in seen.failed.items()}
    return result


def _late() -> UnderstudyError:
    words = f"It was not read within {READ_S:.0f} s, because there are many groups. Simulate fewer."
    return UnderstudyError(words, code="timeout")


def _look(stop: threading.Event) -> None:
    if stop.is_set():
        raise UnderstudyError("The simulation was stopped.", code="stopped")
