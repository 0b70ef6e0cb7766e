"""Why a partition stops, as every lane says it."""

from __future__ import annotations

import dataclasses

from mirrors.domain.gaps.lost_ranges import GapFacts
from spark_runner.ipc.messages import ErrorState, PartitionError


@dataclasses.dataclass(frozen=True)
class StopReason:
    """`state` gap: offsets that can no longer be read are an operator's to decide on; faulted:
    something to mend, or with a gap, to pass by. Without an offset it is the first one not
    copied."""

    state: ErrorState
    code: str
    reason: str
    offset: int | None = None
    gap: GapFacts | None = None

    def on(self, place: tuple[str, int], done: int) -> PartitionError:
        """What is told of the partition, of which all before `done` has crossed."""
        topic, partition = place
        gap = self.gap
        if gap is not None and gap.behind is not None:
            # Holes before it are part of it: a position lies behind what crossed.
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
