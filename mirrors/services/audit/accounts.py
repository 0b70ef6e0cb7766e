"""Audit entries about accounts: people, roles, passwords, tokens, sign-ins, refused requests.

Signals write them, so no way to change an account is without an entry: pages, REST, Django's
administration and commands. Secrets are never in an entry.

Failed sign-ins and refused requests are limited to LIMIT entries a minute for each address; the
next entry says how many were omitted.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from axes.signals import user_locked_out
from django.contrib.auth.models import Group, User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from knox.models import AuthToken

from mirrors.domain.audit.actors import NOBODY
from mirrors.models.audit.chain import current_actor, origin
from mirrors.models.audit.transitions import Result, write_entry

LIMIT = 20
# Facts of a person whose changes are recorded with both values.
_FACTS = ("username", "email", "is_active", "is_staff", "is_superuser")


class _Limiter:
    """Counts events by key and minute, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[int, int]] = {}
        self._omitted: dict[str, int] = {}

    def allow(self, key: str) -> tuple[bool, int]:
        """Whether to record this event, and how many were omitted before it."""
        minute = int(time.monotonic() // 60)
        with self._lock:
            if len(self._seen) > 10_000:
                self._seen.clear()
                self._omitted.clear()
            begun, count = self._seen.get(key, (minute, 0))
            count = count + 1 if begun == minute else 1
            self._seen[key] = (minute, count)
            if count > LIMIT:
                self._omitted[key] = self._omitted.get(key, 0) + 1
                return False, 0
            return True, self._omitted.pop(key, 0)


_limiter = _Limiter()


def connect() -> None:
    """Connect the signals, once a process."""
    user_logged_in.connect(_signed_in, dispatch_uid="audit")
    user_logged_out.connect(_signed_out, dispatch_uid="audit")
    user_login_failed.connect(_sign_in_failed, dispatch_uid="audit")
    user_locked_out.connect(_locked_out, dispatch_uid="audit")
    pre_save.connect(_remember, sender=User, dispatch_uid="audit")
    post_save.connect(_person_saved, sender=User, dispatch_uid="audit")
    post_delete.connect(_person_deleted, sender=User, dispatch_uid="audit")
    m2m_changed.connect(_roles_changed, sender=User.groups.through, dispatch_uid="audit")
    post_save.connect(_token_created, sender=AuthToken, dispatch_uid="audit")
    post_delete.connect(_token_revoked, sender=AuthToken, dispatch_uid="audit")


def note_person(user: User, *, what: str, why: str = "", **more: Any) -> None:
    """An entry about a person."""
    write_entry(
        subject="user",
        subject_id=user.pk or 0,
        field="account",
        name=user.get_username(),
        to_state=what,
        why=why,
        **{"who": current_actor(), **more},
    )


def note_request(*, why: str, who: str) -> None:
    """A request that succeeded and caused no other entry."""
    write_entry(
        subject="request", subject_id=0, field="request", name=why, who=who, to_state="done", why=""
    )


def note_refused(*, what: str, why: str, who: str = "") -> None:
    """A request that a missing right or a wrong token refused."""
    _note_limited(what=what, why=why, who=who, user=User.objects.filter(username=who).first())


def _note_limited(*, what: str, why: str, who: str, user: User | None) -> None:
    allowed, omitted = _limiter.allow(f"{what} {origin.get().network} {who}")
    if not allowed:
        return
    detail = {"omitted": omitted} if omitted else None
    write_entry(
        subject="user",
        subject_id=user.pk if user else 0,
        field="access",
        name=user.get_username() if user else "",
        who=who or NOBODY,
        to_state=what,
        why=why,
        result=Result.REFUSED,
        detail=detail,
    )


def _signed_in(sender: Any, user: User, **_: Any) -> None:
    note_person(user, what="signed in", who=user.get_username())


def _signed_out(sender: Any, user: User | None, **_: Any) -> None:
    if user is not None:
        note_person(user, what="signed out", who=user.get_username())


def _sign_in_failed(sender: Any, credentials: dict[str, Any], **_: Any) -> None:
    # The field may hold a password that was typed in the wrong place: only known names are kept.
    user = User.objects.filter(username=str(credentials.get("username", ""))[:150]).first()
    why = "" if user else "The name is unknown."
    _note_limited(what="sign-in failed", why=why, who="", user=user)


def _locked_out(sender: Any, username: str = "", **_: Any) -> None:
    user = User.objects.filter(username=str(username)[:150]).first()
    why = "Too many failed sign-ins."
    _note_limited(what="sign-in locked", why=why, who="", user=user)


def _remember(sender: Any, instance: User, update_fields: Any = None, **_: Any) -> None:
    # Every sign-in saves its time alone.
    if update_fields and set(update_fields) == {"last_login"}:
        instance._before = instance  # type: ignore[attr-defined]
        return
    instance._before = User.objects.filter(pk=instance.pk).first()  # type: ignore[attr-defined]


def _person_saved(sender: Any, instance: User, created: bool, **_: Any) -> None:
    before: User | None = getattr(instance, "_before", None)
    if created or before is None:
        facts = {name: getattr(instance, name) for name in _FACTS}
        note_person(instance, what="created", detail={"after": facts})
        return
    changed = [name for name in _FACTS if getattr(before, name) != getattr(instance, name)]
    if changed:
        was = {name: getattr(before, name) for name in changed}
        now = {name: getattr(instance, name) for name in changed}
        what = "edited"
        if changed == ["is_active"]:
            what = "activated" if instance.is_active else "deactivated"
        note_person(instance, what=what, detail={"before": was, "after": now})
    if before.password != instance.password:
        note_person(instance, what="password changed")


def _person_deleted(sender: Any, instance: User, **_: Any) -> None:
    note_person(instance, what="deleted")


def _roles_changed(
    sender: Any, instance: Any, action: str, reverse: bool, pk_set: set[int] | None, **_: Any
) -> None:
    if action not in {"post_add", "post_remove", "pre_clear"}:
        return
    if action == "pre_clear":
        pk_set = set() if reverse else set(instance.groups.values_list("pk", flat=True))
    people = User.objects.filter(pk__in=pk_set or ()) if reverse else [instance]
    groups = [instance] if reverse else Group.objects.filter(pk__in=pk_set or ())
    words = sorted(group.name for group in groups)
    what = "role given" if action == "post_add" else "role removed"
    side = "after" if action == "post_add" else "before"
    for user in people:
        if words:
            note_person(user, what=what, why=", ".join(words), detail={side: {"roles": words}})


def _token_created(sender: Any, instance: AuthToken, created: bool, **_: Any) -> None:
    if created:
        until = instance.expiry.isoformat() if instance.expiry else None
        detail = {"after": {"key": instance.token_key[:8], "expiry": until}}
        note_person(instance.user, what="token created", detail=detail)


def _token_revoked(sender: Any, instance: AuthToken, **_: Any) -> None:
    owner = User.objects.filter(pk=instance.user_id).first()
    if owner is not None:
        detail = {"before": {"key": instance.token_key[:8]}}
        note_person(owner, what="token revoked", detail=detail)
