"""What the clerk of a flow has at hand: the planner, the ends sampler, MM2's copy of positions.

Made and used on the clerk's thread only; every call may wait for Kafka, each with its deadline.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirrors.domain.errors import KafkaRefused
from mirrors.domain.gaps.foreign_records import Stretch
from mirrors.domain.runners.job_files import JobSpec
from spark_runner.ipc.messages import PartitionError
from spark_runner.planning.gaps import Orders
from spark_runner.planning.plan import Plan
from spark_runner.planning.planner import Planner
from spark_runner.positions.mm2_export import ConnectOffsetsWriter
from spark_runner.positions.topic import Place
from spark_runner.status.foreign_records import ForeignWrites, RemotePartition
from spark_runner.status.source_offsets import Ends, EndsSampler

POSITIONS_DEADLINE_S = 5.0


class Looked(NamedTuple):
    """What a look found: whether another plan is due, and partitions of topics that were created
    again since the last one."""

    has_changed: bool
    recreated: Mapping[Place, PartitionError]


class Desk:
    """What the clerk works with; every method may block, and raises what Kafka refuses."""

    def __init__(self, job: JobSpec, owner: str) -> None:
        self._job = job
        self._owner = owner
        self._planner: Planner | None = None
        self._ends: EndsSampler | None = None
        self._foreign: ForeignWrites | None = None
        self._foreign_at = 0.0
        self._copy: ConnectOffsetsWriter | None = None
        self._seen: object = None

    @property
    def planner(self) -> Planner:
        if self._planner is None:
            self._planner = Planner(self._job, self._owner)
        return self._planner

    def open(self, most_slices: int, orders: Orders) -> Plan:
        """Take the flow over and plan. After a failure the next call begins anew."""
        try:
            planner = self.planner
            planner.check_start()
            planner.take_over()
            plan = self.plan(most_slices, {}, {}, orders)
            # The first stop or pause must not wait for its connections.
            self._copier(planner).connect()
            return plan
        except Exception:
            self._planner = None
            raise

    def plan(
        self,
        most_slices: int,
        positions: dict[Place, int],
        slices: dict[Place, int],
        orders: Orders,
    ) -> Plan:
        seen = self.planner.look()
        plan = self.planner.plan(
            now=int(time.time() * 1000),
            most_slices=most_slices,
            positions=positions,
            slices=slices,
            orders=orders,
        )
        self._seen = seen
        return plan

    def look(self) -> Looked:
        """Whether topics, partitions or ids differ from what the last plan was made of."""
        has_changed = self.planner.look() != self._seen
        recreated = self.planner.recreated() if has_changed else {}
        return Looked(has_changed, recreated)

    def is_owner(self) -> bool:
        return self.planner.is_owner()

    def sample(
        self,
        places: list[Place],
        starts: Collection[Place],
        undated: Mapping[Place, int],
        positions: dict[Place, int],
    ) -> Ends:
        """`positions` as committed before the source is asked."""
        if self._ends is None:
            self._ends = EndsSampler(self._job.source)
        return dataclasses.replace(self._ends.sample(places, starts, undated), positions=positions)

    def find_foreign(self, remotes: dict[Place, RemotePartition]) -> dict[Place, list[Stretch]]:
        """Records of other producers in partitions where the flow writes nothing.

        None where others write the same topics on purpose, or where a record of this flow may look
        like theirs.
        """
        settings = self.planner.spec.settings
        began = time.monotonic()
        if settings.delivery != "exactly_once" or settings.skip_replicated:
            return {}
        if began < self._foreign_at:
            return {}
        if self._foreign is None:
            self._foreign = ForeignWrites(self._job.target)
        found = self._foreign.look(remotes)
        # Of many partitions a look takes long: a twentieth of the time at most goes into it.
        self._foreign_at = began + 20 * (time.monotonic() - began)
        return found

    def copy_positions(self, positions: dict[Place, int]) -> None:
        """For MM2: `mm2-offsets.<source>.internal`."""
        if self._planner is None:
            raise KafkaRefused("The flow has not been taken over yet.", code="not_open")
        self._copier(self._planner).write(positions, deadline_s=POSITIONS_DEADLINE_S)

    def _copier(self, planner: Planner) -> ConnectOffsetsWriter:
        if self._copy is None:
            self._copy = ConnectOffsetsWriter(
                self._job.target, planner.offsets_topic, self._job.source.alias
            )
        return self._copy

    def close(self) -> None:
        if self._ends is not None:
            self._ends.close()
        if self._foreign is not None:
            self._foreign.close()
        if self._planner is not None:
            self._planner.close()
