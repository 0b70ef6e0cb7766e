"""Why a partition stops, in the form that both lanes report."""

from __future__ import annotations

import dataclasses

from mirrors.domain.gaps.lost_ranges import GapFacts
from spark_runner.ipc.messages import ErrorState, PartitionError


@dataclasses.dataclass(frozen=True)
class StopReason:
    """Why a partition stops.

    - `state` "gap": offsets that can no longer be read; an operator decides.
    - `state` "faulted": something to fix or, where `gap` is set, to skip.
    - `offset`: None for the first offset that was not replicated.
    """

    state: ErrorState
    code: str
    reason: str
    offset: int | None = None
    gap: GapFacts | None = None

    def on(self, tp: tuple[str, int], done: int) -> PartitionError:
        """The error to report for a partition that is replicated up to `done`."""
        topic, partition = tp
        gap = self.gap
        if gap is not None and gap.behind is not None:
            # The gap begins at the committed position, which includes missing offsets before the
            # record.
            gap = dataclasses.replace(gap, position=done)
        return PartitionError(
            topic=topic,
            partition=partition,
            offset=done if self.offset is None else self.offset,
            state=self.state,
            code=self.code,
            reason=self.reason,
            gap=gap,
        )
