"""How far the source reaches: both ends of each partition, asked seldom while nothing moves."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

from mirrors.domain.specs import ClusterSpec
from mirrors.kafka.admin import Admin
from spark_runner.positions import Place

DEADLINE_S = 5.0


@dataclasses.dataclass(frozen=True)
class Ends:
    """`end` counts everything, `stable` only what a reader of committed records may read."""

    as_of: int
    end: dict[Place, int]
    stable: dict[Place, int]


class EndsSampler:
    """Used by one thread at a time; raises when nothing at all is answered."""

    def __init__(self, source: ClusterSpec) -> None:
        self._admin = Admin(source, client_id="understudy-ends")

    def close(self) -> None:
        self._admin.close()

    def sample(self, places: Iterable[Place]) -> Ends:
        wanted = list(places)
        as_of = int(time.time() * 1000)
        stable = self._admin.list_offsets(wanted, "stable", deadline_s=DEADLINE_S)
        if stable.failed and not stable.done:
            stable.raise_first()
        end = self._admin.list_offsets(wanted, "latest", deadline_s=DEADLINE_S)
        return Ends(as_of, end.done, stable.done)
