"""Who acts: a person, a token of a person, or a process of this program.

The kind is a column of its own. A name says nothing about the kind: a person could choose the name
of a process, so these names are also reserved.
"""

from __future__ import annotations

import enum
import ipaddress

# Values of `field` in entries about people, their tokens and refused requests.
ACCOUNTS = ("account", "access")


class ActorKind(enum.StrEnum):
    PERSON = "person"
    TOKEN = "token"  # noqa: S105 (a kind)
    PROCESS = "process"


class Process(str):
    """The name of a process as the author of an audit entry; a plain string names a person."""

    __slots__ = ()


RECONCILER = Process("reconciler")
RUNNER = Process("runner")
WORKER = Process("worker")
DUTY = Process("duty")
TAKEOVER = Process("takeover")
# A management command: the operating system knows who ran it.
COMMAND_LINE = Process("command line")
# A request that nobody signed, such as a failed sign-in.
NOBODY = Process("nobody")

PROCESSES = (RECONCILER, RUNNER, WORKER, DUTY, TAKEOVER, COMMAND_LINE, NOBODY)
_RESERVED = frozenset(
    [
        *PROCESSES,
        *("understudy", "system", "root", "admin site", "scheduler", "schedule", "beat", "celery"),
        *("supervisor", "none", "null", "unknown", "everybody", "anonymous", "anonymoususer"),
    ]
)


def kind_of(who: str) -> ActorKind:
    """The kind of an author outside a request with a token."""
    return ActorKind.PROCESS if isinstance(who, Process) else ActorKind.PERSON


def name_refusal(name: str) -> str | None:
    """Why a person may not have this name; None when they may."""
    folded = "".join(name.casefold().replace("_", " ").replace("-", " ").split())
    if folded in {"".join(word.split()) for word in _RESERVED}:
        return f"{name} is reserved: the audit log uses such names for processes. Choose another."
    return None


def network_of(address: str) -> str:
    """Who counts as one client: the address; of IPv6 the first 64 bits, which one host has.

    Empty for no address.
    """
    if ":" not in address:
        return address
    return str(ipaddress.IPv6Network(f"{address.partition('%')[0]}/64", strict=False))
