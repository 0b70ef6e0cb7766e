"""What is open in partitions under our producer id, though behind the fence nothing should be."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping

from mirrors.domain.errors import KafkaRefused, UnderstudyError
from spark_runner.lanes import remote_cut
from spark_runner.lanes.track import Track
from spark_runner.wire.cluster import ClusterClient
from spark_runner.wire.codes import RETRY, Code, failure
from spark_runner.wire.described import Open, Place, open_transactions
from spark_runner.wire.patience import until_answered
from spark_runner.wire.transactions import Identity

log = logging.getLogger(__name__)

LOOK_S = 3.0
# Our own topics have no leader for no longer, unless the cluster is away.
LEDGERS_S = 20.0

States = dict[Track, Open | None]


class Hanging:
    """Blocking; it takes the right to read the partitions, and Kafka 2.8 or newer."""

    def __init__(self, target: ClusterClient, identity: Identity) -> None:
        self._target = target
        self._identity = identity
        # Those of which nobody ever tells us.
        self._blind: set[Track] = set()

    def await_leaders(self, tracks: Iterable[Track]) -> None:
        """Raises KafkaUnavailable when one has none for long."""
        places, deadline = _by_place(tracks), time.monotonic() + LEDGERS_S

        def look() -> None:
            led = remote_cut.by_leader(self._target, places, deadline)
            self._wait_for([row[:2] for row in led.get(remote_cut.NOBODY, ())])

        until_answered(look, deadline)

    def insist(self, tracks: Iterable[Track]) -> States:
        """Of all that will ever tell; raises KafkaUnavailable when one has no leader for long."""
        return self._states(_by_place(tracks), {}, time.monotonic() + LEDGERS_S)

    def states(self, tracks: Iterable[Track]) -> States:
        """Of those that can be looked at now."""
        found: States = {}
        try:
            self._states(_by_place(tracks), found, time.monotonic() + LOOK_S)
        except UnderstudyError as error:
            log.warning("whether transactions hang is not known yet: %s", error.message)
        return found

    def untold(self, tracks: Iterable[Track], states: States) -> set[Track]:
        """Those of which nobody tells for now."""
        return set(tracks) - states.keys() - self._blind

    def still(self, tracks: Iterable[Track]) -> list[Track]:
        """Those of which nobody says that none is open."""
        states = self.states(tracks)
        return [track for track in tracks if track not in states or states[track] is not None]

    def _states(self, places: Mapping[Place, Track], found: States, deadline: float) -> States:
        try:
            until_answered(lambda: self._look(places, found, deadline), deadline)
        except KafkaRefused as error:
            self._blind |= set(places.values())
            log.warning("whether transactions hang cannot be known: %s", error.message)
        return found

    def _look(self, places: Mapping[Place, Track], found: States, deadline: float) -> None:
        led = remote_cut.by_leader(self._target, places, deadline)
        # Another topic of that name: this is told by its id.
        known = {row[:2] for rows in led.values() for row in rows}
        self._blind |= {track for place, track in places.items() if place not in known}
        waiting = [row[:2] for row in led.pop(remote_cut.NOBODY, ())]
        for wanted in led.values():
            rows, refused = open_transactions(
                self._target, wanted, self._identity.producer_id, deadline
            )
            found.update((places[place], row) for place, row in rows.items())
            passing = [place for place, number in refused.items() if number in RETRY]
            self._blind |= {places[place] for place in refused.keys() - set(passing)}
            waiting += passing
        self._wait_for(waiting)

    def _wait_for(self, waiting: list[Place]) -> None:
        if waiting:
            name = "-".join(map(str, waiting[0]))
            raise failure(
                Code.LEADER_NOT_AVAILABLE,
                where=self._target.alias,
                doing=f"look for transactions that hang in {name}",
            )


def _by_place(tracks: Iterable[Track]) -> dict[Place, Track]:
    return {(track.remote_topic, track.partition): track for track in tracks}


def open_in(states: States) -> dict[Track, Open]:
    """Those in which one is open."""
    return {track: found for track, found in states.items() if found is not None}
