"""Which consumer groups a flow selects: MM2's two filters, and groups that have offsets."""

from __future__ import annotations

from typing import NamedTuple

from mirrors.domain.filters.topics import RuleVerdict
from mirrors.domain.patterns.matcher import NamePatterns
from mirrors.domain.specs import FlowSettings

# What keeps its offsets as consumers do; a Connect worker's or a share group has none to carry.
_KINDS = ("classic", "consumer")
_PROTOCOLS = ("", "consumer")


class GroupVerdict(NamedTuple):
    """Whether a group is selected, and the rule that decided."""

    chosen: bool
    reason: str


class GroupSelection:
    """MM2's selection of groups for one flow."""

    def __init__(self, settings: FlowSettings) -> None:
        self._include = NamePatterns(settings.groups)
        self._exclude = NamePatterns(settings.groups_exclude)

    def decide(
        self, group: str, *, kind: str = "classic", protocol: str = "consumer"
    ) -> GroupVerdict:
        """Return the verdict. `kind` and `protocol` are the group's type and protocol in Kafka."""
        if kind not in _KINDS or protocol not in _PROTOCOLS:
            what = f"{kind} group" if kind not in _KINDS else f"group with the protocol {protocol}"
            return GroupVerdict(False, f"is a {what}, which has no consumer offsets")
        included, excluded = self.rules(group)
        if not included.passed:
            return GroupVerdict(False, included.reason)
        if not excluded.passed:
            return GroupVerdict(False, excluded.reason)
        return GroupVerdict(True, included.reason)

    def rules(self, group: str) -> tuple[RuleVerdict, RuleVerdict]:
        """Return the verdict of each of the two filters on a name."""
        if self._include.matches(group):
            reason = f"matches groups ({self._include.first_match(group)})"
            included = RuleVerdict("groups", True, reason)
        else:
            empty = "groups is empty, so it matches nothing"
            where = "matches no element of groups" if self._include.elements else empty
            included = RuleVerdict("groups", False, where)
        if not self._exclude.matches(group):
            return included, RuleVerdict(
                "groups.exclude", True, "matches no element of groups.exclude"
            )
        reason = f"matches groups.exclude ({self._exclude.first_match(group)})"
        return included, RuleVerdict("groups.exclude", False, reason)
