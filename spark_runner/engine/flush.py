"""A slice's waiting before a commit: until the target has acknowledged what was sent.

First for the batches, of which only those go out that came back before (`settle`); then, with the
positions and runs written down, for our own records alone (`close`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mirrors.kafka.error_codes import Code
from mirrors.kafka.producers.producer_id import ProducerLost
from mirrors.kafka.quotas import late
from spark_runner.engine.model.partition import Track
from spark_runner.engine.poller import Sockets
from spark_runner.engine.target.leaders import Homes, is_on_its_way
from spark_runner.engine.target.produce_connection import Pipe
from spark_runner.engine.target.retries import RETRY_BUSY_S, Returns
from spark_runner.engine.target.writer import Outlet, Which

# Deadlines and `hurry` are asked for at least so often.
_LISTEN_S = 0.2
# While somebody waits for the slice, a target that is silent for longer is not waited for.
_HURRIED_S = 3.0
Hurry = Callable[[], bool]


class Drain:
    """One for a slice.

    Deadlines are moments of the monotonic clock, in seconds; `hurry` says whether somebody waits.
    Both waits raise KafkaUnavailable (`timeout`) when somebody does and the target does not answer
    soon, and ProducerLost when the deadline is over: then what was sent may have been written, or
    not. A broker's quota prolongs both. What an answer makes the outlet raise comes through.
    """

    def __init__(self, homes: Homes, returns: Returns, outlet: Outlet) -> None:
        self._homes = homes
        self._returns = returns
        self._outlet = outlet
        self._sockets = Sockets()

    def settle(self, deadline: float, hurry: Hurry) -> None:
        """Wait until no batch is in flight or in doubt: only what came back goes out again."""
        self._wait(_came_back, (), deadline, hurry)

    def close(self, ledgers: tuple[Track, ...], deadline: float, hurry: Hurry) -> None:
        """Wait until our own records are written in these; after all, the transaction can end.

        Nothing else goes out: a batch that landed now would be committed without its position, and
        an epoch that ends here would leave it to its successor to copy once more.
        """
        for track in ledgers:
            self._outlet.offer(track)
        self._wait(lambda track: track in ledgers, ledgers, deadline, hurry)

    def _wait(self, which: Which, owed: tuple[Track, ...], deadline: float, hurry: Hurry) -> None:
        """`which` may go out meanwhile; all of what is `owed` has to be written."""
        began = time.monotonic()
        while True:
            now = time.monotonic()
            self._outlet.pump(now, which)
            pipes = self._outlet.awaited()
            if not pipes and not self._returns.unsure and not any(map(is_on_its_way, owed)):
                return
            # A broker that throttles us answers late, as it said: that is waited for.
            throttled = max(0.0, self._homes.quiet_until - began)
            if hurry() and now - began - throttled > _HURRIED_S:
                raise late(
                    self._homes.alias,
                    f"Cluster {self._homes.alias}: records are not acknowledged in time. Nothing "
                    "was committed; the slice starts again at its last commit.",
                )
            if now > deadline + throttled:
                raise ProducerLost(Code.REQUEST_TIMED_OUT, "wait for the last replies")
            for pipe in self._sockets.wait(pipes, _LISTEN_S if pipes else RETRY_BUSY_S):
                if isinstance(pipe, Pipe):
                    self._outlet.receive(pipe, time.monotonic())
            self._outlet.give_up_overdue(now)


def _came_back(track: Track) -> bool:
    return bool(track.queue and track.queue[0].stamped)
