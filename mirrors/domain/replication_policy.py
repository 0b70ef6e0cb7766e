"""ReplicationPolicy: names of remote topics, origins of topics, internal topics and cycles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Literal

from mirrors.domain.patterns.renames import Renamed, RenameMap
from mirrors.domain.settings.table import POLICY_CLASSES
from mirrors.domain.specs import FlowSettings

HEARTBEATS = "heartbeats"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReplicationPolicy:
    """The naming rule of one flow, with the same results as MM2's Java classes.

    - `renames`: `topic.rename`, which decides before the class. MM2 has none, and a name on the
      target does not tell the source topic: `upstream_topic` and `chain` read the class's names.
    - `source_alias` is None only if none is configured (a bare MirrorClient with Identity).
    - `cycle_rule` "4.4" also counts the source's own alias as a cycle, "4.3" only the target's.
    """

    kind: Literal["default", "identity"] = "default"
    source_alias: str | None = None
    target_alias: str | None = None
    separator: str = "."
    internal_separator: str = "."
    cycle_rule: Literal["4.3", "4.4"] = "4.4"
    renames: RenameMap = dataclasses.field(default_factory=RenameMap)

    def remote_topic(self, topic: str) -> str:
        """Return the name of a source topic on the target. It may be no valid name of a topic."""
        renamed = self.renamed(topic)
        if renamed is not None:
            return renamed.name
        return self.format_remote_topic(self.source_alias or "", topic)

    def renamed(self, topic: str) -> Renamed | None:
        """Return the name by a rule of `topic.rename`; None if the class names the topic.

        Topics with names of MM2's heartbeats and internal topics keep the class's names: MM2's
        clients look for those.
        """
        if not self.renames or self.is_reserved(topic):
            return None
        return self.renames.decide(topic)

    def continues_in_remote(self, topic: str) -> bool:
        """Return whether producers write to the remote topic after a failover.

        Otherwise the remote topic is left as it is, and they write to the topic of the same name.
        So it is for a new name that looks like one of the class: the cycle rule applies to it.
        """
        if self._keeps_name(topic):
            return True
        renamed = self.renamed(topic)
        own = {self.source_alias, self.target_alias}
        return renamed is not None and not own.intersection(self.chain(renamed.name))

    @property
    def is_written_on_both_sides(self) -> bool:
        """Return whether producers write to remote topics after a failover.

        A reverse flow returns those records to the source topic, so both flows have to skip copies.
        """
        return self.kind == "identity" or bool(self.renames)

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if self._keeps_name(topic):
            return topic
        return f"{alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the alias from which a topic came, by its name; None for a local topic."""
        return self.source_alias if self._keeps_name(topic) else self._prefix(topic)

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name one hop back; None for a local topic."""
        if self._keeps_name(topic):
            return topic
        source = self._prefix(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """Return the name at the beginning of the chain."""
        if self._keeps_name(topic):
            return topic
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_heartbeats_topic(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_own_heartbeats_topic(self, topic: str) -> bool:
        """Return whether it is the heartbeats topic, local or replicated by this flow's clusters.

        MM2 accepts any name with that ending, such as a user's topic `sensors.heartbeats`.
        """
        known = {self.source_alias, self.target_alias}
        return self.is_heartbeats_topic(topic) and set(self.chain(topic)) <= known

    def is_own_internal_topic(self, topic: str) -> bool:
        """Return whether it is an internal topic of MM2 or of this flow's clusters.

        A topic that only has a similar name is not, such as `payments.checkpoints.internal`.
        """
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

    def is_reserved(self, topic: str) -> bool:
        """Return whether Kafka, MM2 or Understudy use the name for topics of their own.

        With a dot in front: MM2 takes it for internal and does not replicate it.
        """
        return (
            topic.startswith(("__", "mm2-", "."))
            or self.is_mm2_internal_topic(topic)
            or self.is_heartbeats_topic(topic)
        )

    def offset_syncs_topic(self, alias: str | None = None) -> str:
        """Return the name with the other cluster's alias: the target's if it is on the source."""
        name = self.target_alias if alias is None else alias
        return f"mm2-offset-syncs{self.internal_separator}{name}{self.internal_separator}internal"

    def checkpoints_topic(self, alias: str | None = None) -> str:
        name = self.source_alias if alias is None else alias
        return f"{name}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def positions_topic(self) -> str:
        """Return the name of the positions topic on the target. Its dots are literal."""
        return f"mm2-positions.{self.source_alias}.internal"

    def offsets_topic(self) -> str:
        """Return the name of Connect's copy of the positions, on the target."""
        return f"mm2-offsets.{self.source_alias}.internal"

    def chain(self, topic: str) -> Iterator[str]:
        """Yield the aliases in a topic's name, nearest first."""
        while (source := self.topic_source(topic)) is not None:
            yield source
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return
            topic = upstream

    def is_cycle(self, topic: str) -> bool:
        """Return whether copying this source topic would return records to their origin."""
        hits = {self.target_alias}
        if self.kind != "identity" and self.cycle_rule == "4.4":
            hits.add(self.source_alias)
        return any(alias in hits for alias in self.chain(topic))

    def hops(self, topic: str, alias: str) -> int:
        """Return how many hops ago a topic was local on `alias`; -1 if never."""
        for number, source in enumerate(self.chain(topic), start=1):
            if source == alias:
                return number
        return -1

    def _keeps_name(self, topic: str) -> bool:
        # MM2 tests the end of the name, so `app-heartbeats` is prefixed under Identity as well.
        return self.kind == "identity" and not topic.endswith(HEARTBEATS)

    def _prefix(self, topic: str) -> str | None:
        pieces = topic.split(self.separator) if self.separator else list(topic)
        # Java's split drops empty pieces at the end, but keeps those in front.
        while len(pieces) > 1 and not pieces[-1]:
            pieces.pop()
        return pieces[0] if len(pieces) > 1 else None


def policy_for(settings: FlowSettings, source_alias: str, target_alias: str) -> ReplicationPolicy:
    """Return the policy in a flow's settings."""
    separator = settings.replication_policy_separator
    follows = settings.replication_policy_internal_topic_separator_enabled
    return ReplicationPolicy(
        kind=POLICY_CLASSES[settings.replication_policy_class],
        source_alias=source_alias,
        target_alias=target_alias,
        separator=separator,
        internal_separator=separator if follows else ".",
        renames=RenameMap(settings.topic_rename),
    )
