"""Which topics of the source the filters of a flow select, without the target.

A plan needs both clusters. While the target does not respond, or the flow is paused, no plan is
made, and new topics of the source are owed nevertheless.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from mirrors.domain.filters.topics import TopicSelection
from mirrors.domain.replication_policy import policy_for
from mirrors.domain.specs import FlowSpec
from spark_runner.kafka_protocol.cluster import MetadataPoller

DEADLINE_S = 5.0


class SelectedTopic(NamedTuple):
    """A topic of the source that the filters select. The remote topic may not exist yet."""

    partitions: int
    remote_topic: str


class SelectedTopicFinder:
    """Used by one thread at a time."""

    def __init__(self, spec: FlowSpec) -> None:
        self._policy = policy_for(spec.settings, spec.source.alias, spec.target.alias)
        self._selection = TopicSelection(spec.settings, self._policy)
        self._metadata = MetadataPoller(spec.source)

    def close(self) -> None:
        self._metadata.close()

    def find(self) -> dict[str, SelectedTopic]:
        """The selected topics, by name. Raises if the source does not respond."""
        views = self._metadata.topics(time.monotonic() + DEADLINE_S)
        return {
            name: SelectedTopic(len(view.leaders), self._policy.remote_topic(name))
            for name, view in views.items()
            if self._selection.decide(name).replicated
        }
