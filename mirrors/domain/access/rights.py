"""Rights, the roles that give them, and the rights that the scope of a token leaves."""

from __future__ import annotations

import enum
from collections.abc import Iterable


class Right(enum.StrEnum):
    """What an address demands.

    - view: read pages, lists and figures. scrape: read `/metrics`.
    - operate: run and stop flows, decide on findings, simulate, fail over, read logs and records.
    - edit: add, change and delete flows, objectives and planned simulations.
    - approve: approve as a second person. audit: read entries about accounts, and addresses.
    - administer: clusters, runners, hooks, channels, people, labels and grants.
    """

    VIEW = "view"
    SCRAPE = "scrape"
    OPERATE = "operate"
    EDIT = "edit"
    APPROVE = "approve"
    AUDIT = "audit"
    ADMINISTER = "administer"


READING = frozenset({Right.VIEW, Right.SCRAPE})
ROLES: dict[str, frozenset[Right]] = {
    "viewer": READING,
    "operator": READING | {Right.OPERATE},
    "editor": READING | {Right.EDIT},
    "approver": READING | {Right.APPROVE},
    "auditor": READING | {Right.AUDIT},
    "admin": frozenset(Right),
}
# The roles of a person (Django groups) are grants of everything. Before there were editors, an
# operator changed flows too.
OF_EVERYTHING: dict[str, tuple[str, ...]] = {role: (role,) for role in ROLES if role != "editor"}
OF_EVERYTHING["operator"] = ("operator", "editor")

# The role to ask for.
ROLE_FOR: dict[Right, str] = {
    Right.VIEW: "viewer",
    Right.SCRAPE: "viewer",
    Right.OPERATE: "operator",
    Right.EDIT: "editor",
    Right.APPROVE: "approver",
    Right.AUDIT: "auditor",
    Right.ADMINISTER: "admin",
}

# What a token of each scope may do at most. Approving is an action: one that reads does not.
OF_TOKENS: dict[str, frozenset[Right]] = {
    "metrics": frozenset({Right.SCRAPE}),
    "read": READING | {Right.AUDIT},
    "operate": frozenset(Right) - {Right.ADMINISTER},
    "everything": frozenset(Right),
}


def rights_everywhere(roles: Iterable[str]) -> frozenset[Right]:
    """The rights on everything that the roles of a person give; other words give none."""
    held = {role for name in roles for role in OF_EVERYTHING.get(name, ())}
    return frozenset().union(*(ROLES[role] for role in held))
