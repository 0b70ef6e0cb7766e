"""Where an audit entry comes from, and the signed anchors of the chain of entries."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Callable

from django.db import models

from mirrors.domain.audit.actors import COMMAND_LINE, ActorKind, kind_of, network_of


@dataclasses.dataclass(frozen=True)
class Origin:
    """The request that causes an entry.

    - `actor` returns the name of its user and the key of its token; both empty while unknown.
    - `written`: what entries it has caused so far.
    """

    reference: str = ""
    address: str = ""
    actor: Callable[[], tuple[str, str]] = lambda: ("", "")
    written: list[str] = dataclasses.field(default_factory=list)

    @property
    def network(self) -> str:
        """Who counts as one client."""
        return network_of(self.address)


_NONE = Origin()
origin: contextvars.ContextVar[Origin] = contextvars.ContextVar("origin", default=_NONE)


def current_actor() -> str:
    """The user of this request; outside a request, the command line."""
    name, _ = origin.get().actor()
    return name or COMMAND_LINE


def kind_and_token(who: str) -> tuple[ActorKind, str]:
    """The kind of the author, and the first characters of the token that the request has."""
    kind = kind_of(who)
    if kind is ActorKind.PERSON:
        _, token = origin.get().actor()
        if token:
            return ActorKind.TOKEN, token[:8]
    return kind, ""


class AuditHead(models.Model):
    """The end of the chain. One row, which is locked while entries are sealed."""

    position = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"audit up to {self.position}"


class AuditAnchor(models.Model):
    """A signed statement: at `at`, the entry at `position` had this digest."""

    position = models.BigIntegerField(unique=True)
    digest = models.CharField(max_length=64)
    at = models.CharField(max_length=40)
    fingerprint = models.CharField(max_length=64)
    signature = models.CharField(max_length=128)

    class Meta:
        ordering = ("-position",)

    def __str__(self) -> str:
        return f"anchor at {self.position}"
