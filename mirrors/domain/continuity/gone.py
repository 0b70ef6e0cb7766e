"""Which copied partitions a source no longer had when the flow last listed its topics.

A position outlives its topic. A plan takes up every topic of the source, those it leaves out with
the rule that said no: so what is older than the list and not in it was not there. What is newer
than the list may have come since.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

Place = tuple[str, int]

# So far apart may the clocks be of those who wrote positions and of who made the list.
CLOCKS_MS = 60_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listed:
    """How many partitions each topic of the source had, 0 where that could not be seen.

    `at` (epoch ms): until then at least the list was that of the flow's plan.
    """

    partitions: Mapping[str, int]
    at: int


def gone_by_then(
    listed: Listed, written: Mapping[Place, int], is_selected: Callable[[str], bool]
) -> frozenset[Place]:
    """`written`: copied partitions, and when (epoch ms) their positions were last written down.

    Of topics that the flow does not select those that could not be described are not in the list.
    """
    if not listed.partitions:
        # Of a flow that never planned, too.
        return frozenset()
    return frozenset(
        (topic, number)
        for (topic, number), at in written.items()
        if at + CLOCKS_MS <= listed.at
        and is_selected(topic)
        and _is_missing(listed.partitions.get(topic), number)
    )


def _is_missing(partitions: int | None, number: int) -> bool:
    return partitions is None or 0 < partitions <= number
