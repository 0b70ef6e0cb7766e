"""Waits for what the demo promises: flows that run, records that cross, and nothing left behind."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition

from controlplane.demo.errors import DemoError
from mirrors.rest_client import RestClient, RestError

# A flow that starts may be in trouble for a moment, so the state must last this long.
SETTLED_S = 15.0
_TROUBLE = frozenset({"degraded", "backing_off", "failed"})

Row = Mapping[str, Any]


@dataclasses.dataclass
class PendingFlows:
    """Which flows are still to be waited for; `kept` are ids of flows of an earlier demo.

    `began_ms`: before it, what the rows say is from before this start. A flow that is degraded or
    runs counts once the runner has reported since then.
    """

    kept: frozenset[int]
    began_ms: float
    _in_trouble: dict[int, tuple[str, float]] = dataclasses.field(default_factory=dict)

    def waiting(self, flows: Iterable[Row], now_s: float) -> list[str]:
        """A sentence for each flow that has not arrived; ask again until there is none."""
        return [describe(flow) for flow in flows if not self._has_arrived(flow, now_s)]

    def _has_arrived(self, flow: Row, now_s: float) -> bool:
        if flow["desired_state"] != "running":
            return True
        is_kept = flow["id"] in self.kept
        state = flow["observed_state"]
        is_fresh = milliseconds(flow["as_of"]) >= self.began_ms
        if state == "running":
            return is_fresh or not is_kept
        if not is_kept or state not in _TROUBLE or (state == "degraded" and not is_fresh):
            self._in_trouble.pop(flow["id"], None)
            return False
        before, since = self._in_trouble.get(flow["id"], (state, now_s))
        if before != state:
            since = now_s
        self._in_trouble[flow["id"]] = state, since
        return now_s - since >= SETTLED_S


def not_running(flows: Iterable[Row]) -> list[str]:
    """What is said of each flow that does not copy, or not all that it should."""
    return [describe(flow) for flow in flows if not runs(flow)]


def runs(flow: Row) -> bool:
    return bool(flow["desired_state"] == "running" and flow["observed_state"] == "running")


def describe(flow: Row) -> str:
    return f"{flow['name']} is {flow['observed_state']} ({flow['reason'] or 'no reason yet'})"


def milliseconds(moment: str | None) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000 if moment else 0.0


FLOWS_DEADLINE = 240.0
RECORDS_DEADLINE = 180.0
CAUGHT_UP_DEADLINE = 180.0
_POLL = 1.0


class Progress:
    """Asks the API what the product says of itself, and the brokers what is really there."""

    def __init__(
        self, api: RestClient, clusters: Mapping[str, str], go_on: Callable[[], None] = lambda: None
    ) -> None:
        self._api = api
        self._clusters = clusters
        self._go_on = go_on

    def wait_for_flows(self, kept: Collection[int] = ()) -> list[str]:
        """Until every flow runs or, if it is one of `kept`, is where an earlier demo left it.

        Answers a sentence for each that does not run. Flows that are new must run.
        """
        arrival = PendingFlows(frozenset(kept), time.time() * 1000)

        def waiting() -> list[str]:
            return arrival.waiting(self.flows(), time.monotonic())

        self._until(waiting, FLOWS_DEADLINE, "Not all flows run")
        return not_running(self.flows())

    def open_runs(self) -> list[str]:
        """A sentence for each simulation, switchover or failover that has not ended."""
        return [
            f"The {run['kind']} {run['id']} of {run['flow']} is {run['state']}"
            f" ({run['reason'] or 'no reason yet'})"
            for run in self._api.rows("failovers/")
            if run["ended_at"] is None
        ]

    def wait_for_first_records(self, kept: Collection[int] = ()) -> None:
        """Until every way has records; a kept flow that does not run is not waited for."""

        def waiting() -> list[str]:
            resting = {
                flow["name"] for flow in self.flows() if flow["id"] in kept and not runs(flow)
            }
            return self._directions_without_records(resting)

        self._until(waiting, RECORDS_DEADLINE, "No record has crossed yet")

    def wait_until_caught_up(self) -> None:
        """Every partition says lag 0, from figures younger than this call."""
        since = time.time() * 1000
        self._until(lambda: self._behind(since), CAUGHT_UP_DEADLINE, "The flows do not catch up")

    def what_does_not_copy(self, since: float) -> list[str]:
        """Flows that do not run, and those whose figures are all older than `since`."""
        return self._asked(lambda: [*self._idle_flows(), *self._silent_flows(since)])

    def flows(self) -> list[dict[str, Any]]:
        return list(self._api.rows("flows/"))

    def _until(self, missing: Callable[[], list[str]], deadline: float, failure: str) -> None:
        until = time.monotonic() + deadline
        while waiting := self._asked(missing):
            if time.monotonic() > until:
                told = "; ".join(waiting[:5]) + ("; ..." if len(waiting) > 5 else "")
                raise DemoError(f"{failure} after {deadline:.0f} s: {told}.", code="slow")
            self._go_on()
            time.sleep(_POLL)

    def _asked(self, missing: Callable[[], list[str]]) -> list[str]:
        try:
            return missing()
        except (RestError, KafkaException) as error:
            return [str(error)]

    def _idle_flows(self) -> list[str]:
        return [
            describe(flow)
            for flow in self.flows()
            if flow["desired_state"] == "running" and flow["observed_state"] != "running"
        ]

    def _directions_without_records(self, ignored: Collection[str] = ()) -> list[str]:
        return [
            f"nothing of {source} is on {target}"
            for source, target in itertools.permutations(self._clusters, 2)
            if f"{source}->{target}" not in ignored
            and not has_records(self._clusters[target], f"{source}.")
        ]

    def _silent_flows(self, since: float) -> list[str]:
        silent = []
        for flow in self.flows():
            rows = self._api.rows(f"flows/{flow['id']}/partitions/")
            newest = max((milliseconds(row["as_of"]) for row in rows), default=0.0)
            if newest < since:
                silent.append(f"the figures of {flow['name']} are {(since - newest):,.0f} ms late")
        return silent

    def _behind(self, since: float) -> list[str]:
        behind = []
        for flow in self.flows():
            for row in self._api.rows(f"flows/{flow['id']}/partitions/"):
                if row["topic"].endswith("heartbeats"):
                    continue  # they never stand still
                place = f"{flow['name']} {row['topic']}-{row['partition']}"
                if row["offset_lag"] is None or milliseconds(row["as_of"]) < since:
                    behind.append(f"{place} has no figure yet")
                elif row["offset_lag"]:
                    behind.append(f"{place} is {row['offset_lag']:,} records behind")
        return behind


def has_records(cluster: str, prefix: str) -> bool:
    """Whether any topic with the prefix holds a committed record (internal topics do not count)."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster,
            "group.id": "understudy-demo",  # never joined
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        for name, topic in consumer.list_topics(timeout=5).topics.items():
            if not name.startswith(prefix) or name.endswith(".internal"):
                continue
            for partition in topic.partitions:
                bounds = consumer.get_watermark_offsets(TopicPartition(name, partition), timeout=5)
                if bounds is not None and bounds[1] > bounds[0]:
                    return True
        return False
    finally:
        consumer.close()
