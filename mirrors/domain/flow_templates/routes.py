"""The templates there are: which clusters each takes, and which flows it makes of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Literal, get_args

from mirrors.domain.errors import InvalidSettings

TemplateKind = Literal["active-passive", "active-active", "hub", "fan-out", "chain"]
KINDS: tuple[TemplateKind, ...] = get_args(TemplateKind)
Edge = tuple[str, str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Template:
    """`first` and `others` name the roles; the first cluster given has the first one."""

    kind: TemplateKind
    label: str
    does: str
    first: str
    others: str
    most: int | None = None

    def edges(self, aliases: Sequence[str]) -> list[Edge]:
        """Source and target of each flow, in the order in which the clusters were given."""
        first, others = aliases[0], aliases[1:]
        if self.kind == "active-passive":
            return [(first, other) for other in others]
        if self.kind == "active-active":
            return [edge for other in others for edge in ((first, other), (other, first))]
        if self.kind == "hub":
            return [(other, first) for other in others]
        if self.kind == "fan-out":
            return [(first, other) for other in others]
        return list(itertools.pairwise(aliases))

    def refusals(self, aliases: Sequence[str]) -> list[str]:
        """Why these clusters cannot stand in these roles; empty when they can."""
        found = []
        if len(aliases) < 2:
            found.append(f"{self.label} takes at least two clusters; {len(aliases)} chosen.")
        if self.most is not None and len(aliases) > self.most:
            found.append(f"{self.label} takes {self.most} clusters, not {len(aliases)}.")
        twice = sorted({alias for alias in aliases if aliases.count(alias) > 1})
        if twice:
            found.append(f"{', '.join(twice)} is named twice; each cluster has one role.")
        return found


TEMPLATES: dict[TemplateKind, Template] = {
    one.kind: one
    for one in (
        Template(
            kind="active-passive",
            label="Active/passive pair",
            does="One flow: the standby learns everything, so that it can step in.",
            first="Active",
            others="Standby",
            most=2,
        ),
        Template(
            kind="active-active",
            label="Active/active pair",
            does="Two flows, one in each direction: both sides are written and both have all.",
            first="One side",
            others="Other side",
            most=2,
        ),
        Template(
            kind="hub",
            label="Hub",
            does="A flow from each spoke to the hub, which gathers what all of them have.",
            first="Hub",
            others="Spokes",
        ),
        Template(
            kind="fan-out",
            label="Fan-out",
            does="A flow from the source to each target: every one has what the source has.",
            first="Source",
            others="Targets",
        ),
        Template(
            kind="chain",
            label="Chain",
            does="A flow from each cluster to the next, in the order given.",
            first="First",
            others="Then, in order",
        ),
    )
}


def kind_of(word: str) -> TemplateKind:
    for kind in KINDS:
        if kind == word:
            return kind
    raise InvalidSettings({"kind": [f"It must be one of {', '.join(KINDS)}, not {word[:40]!r}."]})
