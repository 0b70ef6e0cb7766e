"""Asks a source cluster for both ends of its partitions, in few large requests, with a deadline."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from datetime import datetime

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.snapshot import ClusterSnapshot
from mirrors.kafka.admin import Admin
from mirrors.models import Cluster

# One request asks for so many partitions: larger ones take longer in all.
CHUNK = 1_000
Place = tuple[str, int]


@dataclasses.dataclass
class Answers:
    """`refused` is the first sentence of why a partition was not answered."""

    earliest: dict[Place, int] = dataclasses.field(default_factory=dict)
    end: dict[Place, int] = dataclasses.field(default_factory=dict)
    stable: dict[Place, int] = dataclasses.field(default_factory=dict)
    refused: str = ""

    def whole(self, place: Place) -> bool:
        return place in self.earliest and place in self.end and place in self.stable


class Sources:
    """The admin connections that this process keeps open; an edited cluster is another one."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[datetime, Admin]] = {}

    def topics(self, cluster: Cluster, *, deadline_s: float) -> ClusterSnapshot:
        """All topics with ids and partition counts. Raises when the cluster does not respond."""
        now = round(time.time() * 1000)
        return self._admin(cluster).snapshot(now=now, deadline_s=deadline_s, with_configs=False)

    def ask(self, cluster: Cluster, places: Sequence[Place], *, deadline_s: float) -> Answers:
        """Raises when nothing at all is answered."""
        deadline = time.monotonic() + deadline_s
        answers = Answers()
        admin = self._admin(cluster)
        for start in range(0, len(places), CHUNK):
            chunk = places[start : start + CHUNK]
            # The beginning last: a record that was there at the end is not taken for a lost one.
            for at, kept in (
                ("stable", answers.stable),
                ("latest", answers.end),
                ("earliest", answers.earliest),
            ):
                left = max(0.1, deadline - time.monotonic())
                part = admin.list_offsets(chunk, at, deadline_s=left)  # type: ignore[arg-type]
                if part.failed and not part.done:
                    self._give_up(cluster, next(iter(part.failed.values())))
                kept |= part.done
                for error in part.failed.values():
                    answers.refused = answers.refused or error.message
        return answers

    def close(self, cluster_id: int) -> None:
        if (known := self._open.pop(cluster_id, None)) is not None:
            known[1].close()

    def _give_up(self, cluster: Cluster, error: UnderstudyError) -> None:
        # What is forbidden or gone is an answer; a cluster that is silent fails the whole sweep.
        if error.code in {"not_found", "not_authorised"}:
            return
        self.close(cluster.pk)
        raise error

    def _admin(self, cluster: Cluster) -> Admin:
        known = self._open.get(cluster.pk)
        if known is None or known[0] != cluster.updated_at:
            self.close(cluster.pk)
            admin = Admin(cluster.spec, client_id="understudy-sweep")
            known = self._open[cluster.pk] = (cluster.updated_at, admin)
        return known[1]


OPEN = Sources()
