"""ReplicationPolicy: names of remote topics, where a topic came from, what is internal, a cycle."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from mirrors.domain.settings.table import POLICY_CLASSES
from mirrors.domain.specs import FlowSettings

HEARTBEATS = "heartbeats"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplicationPolicy:
    """The naming rule of one flow, answer for answer as MM2's Java classes give it.

    `source_alias` is None only where nobody configured one (a bare MirrorClient with Identity).
    `cycle_rule` "4.4" also counts the source's own alias as a cycle, "4.3" only the target's.
    """

    kind: Literal["default", "identity"] = "default"
    source_alias: str | None = None
    target_alias: str | None = None
    separator: str = "."
    internal_separator: str = "."
    cycle_rule: Literal["4.3", "4.4"] = "4.4"

    def remote_topic(self, topic: str) -> str:
        """The name that this flow gives to a source topic on the target."""
        return self.format_remote_topic(self.source_alias or "", topic)

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if self._keeps_name(topic):
            return topic
        return f"{alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """The alias a topic says it came from; None for a topic that is at home."""
        return self.source_alias if self._keeps_name(topic) else self._prefix(topic)

    def upstream_topic(self, topic: str) -> str | None:
        """The name one hop back; None for a topic that is at home."""
        if self._keeps_name(topic):
            return topic
        source = self._prefix(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """The name at the very beginning of the chain."""
        if self._keeps_name(topic):
            return topic
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_own_heartbeats_topic(self, topic: str) -> bool:
        """The heartbeats topic, at home or by way of this flow's clusters.

        MM2 takes any name that ends so for one, such as `sensors.heartbeats`, a user's topic.
        """
        known = {self.source_alias, self.target_alias}
        return self.is_heartbeats_topic(topic) and set(self.chain(topic)) <= known

    def is_own_internal_topic(self, topic: str) -> bool:
        """An internal topic of MM2 or of this flow's clusters, and not one that only looks so,
        such as `payments.checkpoints.internal`."""
        aliases = (self.source_alias, self.target_alias)
        if topic in {self.checkpoints_topic(alias) for alias in aliases}:
            return True
        return self.is_mm2_internal_topic(topic) and topic.startswith(
            tuple(
                f"mm2-{kind}{separator}"
                for kind in ("configs", "offsets", "status", "offset-syncs")
                for separator in (".", self.internal_separator)
            )
        )

    def is_checkpoints_topic(self, topic: str) -> bool:
        separator = self.internal_separator
        return topic.endswith(f"{separator}checkpoints{separator}internal")

    def is_mm2_internal_topic(self, topic: str) -> bool:
        ours = topic.startswith("mm2") and topic.endswith(f"{self.internal_separator}internal")
        return ours or self.is_checkpoints_topic(topic)

    def offset_syncs_topic(self, alias: str | None = None) -> str:
        """Named after the other cluster: the target's alias when it lives on the source."""
        name = self.target_alias if alias is None else alias
        return f"mm2-offset-syncs{self.internal_separator}{name}{self.internal_separator}internal"

    def checkpoints_topic(self, alias: str | None = None) -> str:
        name = self.source_alias if alias is None else alias
        return f"{name}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def positions_topic(self) -> str:
        """Ours, on the target. The dots are literal, as in Connect's topics."""
        return f"mm2-positions.{self.source_alias}.internal"

    def offsets_topic(self) -> str:
        """Connect's copy of the positions, on the target."""
        return f"mm2-offsets.{self.source_alias}.internal"

    def chain(self, topic: str) -> Iterator[str]:
        """The aliases that a topic's name tells, nearest first."""
        while (source := self.topic_source(topic)) is not None:
            yield source
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return
            topic = upstream

    def is_cycle(self, topic: str) -> bool:
        """Whether copying this source topic would bring records back to where they came from."""
        hits = {self.target_alias}
        if self.kind != "identity" and self.cycle_rule == "4.4":
            hits.add(self.source_alias)
        return any(alias in hits for alias in self.chain(topic))

    def hops(self, topic: str, alias: str) -> int:
        """How many hops ago a topic was at home on `alias`; -1 when it never was."""
        for number, source in enumerate(self.chain(topic), start=1):
            if source == alias:
                return number
        return -1

    def _keeps_name(self, topic: str) -> bool:
        # MM2 tests the end of the name, so app-heartbeats is prefixed under Identity as well.
        return self.kind == "identity" and not topic.endswith(HEARTBEATS)

    def _prefix(self, topic: str) -> str | None:
        pieces = topic.split(self.separator) if self.separator else list(topic)
        # Java's split drops empty pieces at the end, but keeps those in front.
        while len(pieces) > 1 and not pieces[-1]:
            pieces.pop()
        return pieces[0] if len(pieces) > 1 else None


def policy_for(settings: FlowSettings, source_alias: str, target_alias: str) -> ReplicationPolicy:
    """The policy that a flow's settings ask for."""
    separator = settings.replication_policy_separator
    follows = settings.replication_policy_internal_topic_separator_enabled
    return ReplicationPolicy(
        kind=POLICY_CLASSES[settings.replication_policy_class],
        source_alias=source_alias,
        target_alias=target_alias,
        separator=separator,
        internal_separator=separator if follows else ".",
    )
