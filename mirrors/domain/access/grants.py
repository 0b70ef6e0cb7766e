"""Grants of roles on everything, a cluster, a flow or a label, and the question that they answer.

- A grant on a flow or on one of its labels gives the role's rights on the flow.
- A grant on a cluster gives them on the cluster. A flow has two clusters: a grant on one of them
  lets a person read the flow; every other right needs a grant on both.
- Who may view a flow may also view its two clusters and its runner (`rows_reached` of these rows).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Collection

from mirrors.domain.access.rights import READING, ROLE_FOR, ROLES, Right


class GrantScope(enum.StrEnum):
    EVERYTHING = "everything"
    CLUSTER = "cluster"
    FLOW = "flow"
    LABEL = "label"


@dataclasses.dataclass(frozen=True)
class Grant:
    """A role on a part of the installation. `of`: the id of a cluster or flow, or the label."""

    role: str
    scope: GrantScope = GrantScope.EVERYTHING
    of: int | str = ""


@dataclasses.dataclass(frozen=True)
class Subject:
    """What a right is demanded on. `name` is for sentences.

    - A flow: `flow`, its source and target in `clusters`, its labels.
    - A pair of clusters on which a flow is to be added: both in `clusters`.
    - A cluster: itself in `clusters`.
    - Without any of these it belongs to the installation: only grants of everything count.
    """

    name: str = ""
    flow: int | None = None
    clusters: tuple[int, ...] = ()
    labels: frozenset[str] = frozenset()


INSTALLATION = Subject()


@dataclasses.dataclass(frozen=True)
class Reach:
    """Where one right is held; a query for rows and `may` both follow it."""

    everything: bool
    clusters: frozenset[int]
    flows: frozenset[int]
    labels: frozenset[str]

    @property
    def is_nothing(self) -> bool:
        return not (self.everything or self.clusters or self.flows or self.labels)


def reach(grants: Collection[Grant], right: Right) -> Reach:
    """Where these grants give the right."""
    held = [grant for grant in grants if right in ROLES.get(grant.role, ())]
    found: dict[GrantScope, set[int | str]] = {scope: set() for scope in GrantScope}
    for grant in held:
        found[grant.scope].add(grant.of)
    return Reach(
        everything=bool(found[GrantScope.EVERYTHING]),
        clusters=frozenset(of for of in found[GrantScope.CLUSTER] if isinstance(of, int)),
        flows=frozenset(of for of in found[GrantScope.FLOW] if isinstance(of, int)),
        labels=frozenset(of for of in found[GrantScope.LABEL] if isinstance(of, str)),
    )


def may(grants: Collection[Grant], right: Right, subject: Subject) -> tuple[bool, str]:
    """Whether the grants give the right on the subject, and why or why not."""
    where = reach(grants, right)
    if where.everything:
        return True, "granted on everything"
    if subject.flow is not None and subject.flow in where.flows:
        return True, "granted on the flow"
    if labels := sorted(subject.labels & where.labels):
        return True, f"granted on the label {labels[0]}"
    held = [cluster in where.clusters for cluster in subject.clusters]
    is_flow = subject.flow is not None
    if held and (all(held) or (is_flow and right in READING and any(held))):
        return True, "granted on its cluster" if len(held) == 1 else "granted on its clusters"
    return False, _refusal(grants, right, subject, any(held))


def _refusal(grants: Collection[Grant], right: Right, subject: Subject, one_end: bool) -> str:
    on = f" on {subject.name}" if subject.name else ""
    held = sorted({grant.role for grant in grants if grant.scope is GrantScope.EVERYTHING})
    words = f"This needs the role {ROLE_FOR[right]}{on}; you have {' and '.join(held) or 'none'}"
    if parts := [grant for grant in grants if grant.scope is not GrantScope.EVERYTHING]:
        words += f", and grants on {len(parts)} {'part' if len(parts) == 1 else 'parts'}"
    if one_end:
        words += ". A grant on one of two clusters is not enough: it needs both"
    return f"{words}."
