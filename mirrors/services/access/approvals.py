"""Approvals by a second person: who may approve what, and requests to drop the rule on a flow.

- The installation's rule (UNDERSTUDY_FAILOVER_SECOND_PERSON) cannot be loosened by a flow.
- A flow's own rule is dropped only by a request of an admin that another person approves.
- Two accounts of one person are not two persons. An account counts as the requester's own if it
  has the same name or e-mail address, had the requester's name before, or was created or changed
  by the requester, under any name of theirs: then the requester may know its password. The same
  holds for a right that the requester gave to a group of the account.
- The other way, who set the present password of the requester's account may be the requester.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from mirrors.domain.access.rights import Right
from mirrors.domain.errors import InvalidSettings
from mirrors.domain.settings.changes import changes_sentence
from mirrors.domain.settings.failover import SECOND
from mirrors.models import Flow, RuleWaiver, SignInGroup, Transition, has_right
from mirrors.models.audit.transitions import note
from mirrors.models.flows import record_edit
from mirrors.services.errors import Conflict

# A request that nobody decided on within this time no longer counts.
OPEN_FOR = timedelta(hours=24)
# What lets its author use an account, or gives it the right to approve.
_GIVES_CONTROL = ("created", "edited", "password changed", "role given", "grant given", "activated")


def needs_second_person(flow: Flow) -> bool:
    return settings.UNDERSTUDY_FAILOVER_SECOND_PERSON or has_own_rule(flow)


def has_own_rule(flow: Flow) -> bool:
    return flow.spec.settings.failover_second_person is True


def flows_with_own_rule() -> list[Flow]:
    """Few flows name the rule, and only of those the settings are read."""
    named = Flow.objects.filter(properties__has_key=SECOND)
    return [flow for flow in named.select_related("source", "target") if has_own_rule(flow)]


def check_approver(*, flow: Flow, requested_by: str, who: str) -> None:
    """Conflict unless `who` may approve what `requested_by` requested on the flow."""
    if who.casefold() == requested_by.casefold():
        raise Conflict(f"{who} requested this, so another person must approve it.")
    user = User.objects.filter(username=who).first()
    if user is None or not has_right(user, Right.APPROVE, flow):
        raise Conflict(f"{who} has neither the role approver nor admin, so cannot approve it.")
    if reason := _same_person(requested_by, user):
        raise Conflict(
            f"{who} cannot approve it: {reason}, so it counts as an account of the same person."
        )


def _same_person(requested_by: str, user: User) -> str:
    requester = User.objects.filter(username=requested_by).first()
    if requester and requester.email and requester.email.casefold() == user.email.casefold():
        return f"its e-mail address is that of {requested_by}"
    about = Transition.objects.filter(subject="user", subject_id=user.pk)
    if about.filter(name__iexact=requested_by).exists():
        return f"its name was {requested_by}"
    names = _names_of(requester) | {requested_by}
    by_requester = Transition.objects.filter(_one_of("who", names))
    if by_requester.filter(pk__in=about.values("pk"), to_state__in=_GIVES_CONTROL).exists():
        return f"{requested_by} created it or changed it"
    names_of_groups = SignInGroup.objects.filter(user=user).values_list("name", flat=True)
    groups = {f"group {name}" for name in names_of_groups}
    given = by_requester.filter(subject="group", to_state="grant given", name__in=groups)
    if given.exists():
        return f"{requested_by} gave a right to a group of it"
    if requester and _password_setter(requester).casefold() in map(str.casefold, _names_of(user)):
        return f"it set the password of {requested_by}, who did not change it since"
    return ""


def _names_of(user: User | None) -> set[str]:
    """The present name and those before a change, as the audit log has them."""
    if user is None:
        return set()
    about = Transition.objects.filter(subject="user", subject_id=user.pk)
    return {user.username, *about.values_list("name", flat=True).distinct()}


def _one_of(field: str, names: set[str]) -> Q:
    found = Q(pk__in=())
    for name in names:
        found |= Q(**{f"{field}__iexact": name})
    return found


def _password_setter(user: User) -> str:
    """Who chose the present password; empty if there is none, or if no entry says so."""
    if not user.has_usable_password():
        return ""
    about = Transition.objects.filter(subject="user", subject_id=user.pk)
    chosen = about.filter(to_state__in=("created", "password changed")).order_by("-id")
    return chosen.values_list("who", flat=True).first() or ""


def check_not_loosened(flow: Flow, after: object) -> None:
    """An edit may add the rule to a flow, not remove it."""
    if has_own_rule(flow) and after is not True:
        words = (
            "This flow requires a second person. An edit cannot remove that: an admin requests it "
            "on the page Approvals, and a second person approves it."
        )
        raise InvalidSettings({SECOND: [words]})


def open_waivers() -> QuerySet[RuleWaiver]:
    young = timezone.now() - OPEN_FOR
    rows = RuleWaiver.objects.filter(decided_at=None, created_at__gt=young)
    return rows.select_related("flow__source", "flow__target")


def request_waiver(*, flow: Flow, who: str, why: str) -> RuleWaiver:
    """Ask to drop the flow's own rule."""
    if not why.strip():
        raise InvalidSettings({"reason": ["Give a reason; the audit log keeps it."]})
    if not has_own_rule(flow):
        raise Conflict(f"{flow.name} has no rule of its own that requires a second person.")
    with transaction.atomic():
        Flow.objects.select_for_update().get(pk=flow.pk)
        if open_waivers().filter(flow=flow).exists():
            raise Conflict(f"A request to drop the rule of {flow.name} already waits.")
        row = RuleWaiver.objects.create(flow=flow, requested_by=who, why=why.strip()[:500])
        note(flow, what="second person: drop asked", who=who, why=row.why)
    return row


def decide_waiver(*, waiver: RuleWaiver, approved: bool, who: str) -> RuleWaiver:
    """Approve a request as a second person, which changes the flow; or reject it."""
    if approved:
        check_approver(flow=waiver.flow, requested_by=waiver.requested_by, who=who)
    with transaction.atomic():
        rows = open_waivers().filter(pk=waiver.pk)
        if not rows.update(decided_at=timezone.now(), decided_by=who, approved=approved):
            raise Conflict("This request was decided already, or is older than 24 hours.")
        flow = Flow.objects.select_for_update(of=("self",)).get(pk=waiver.flow_id)
        word = "approved" if approved else "rejected"
        note(flow, what=f"second person: drop {word}", who=who, why=waiver.why)
        if approved and SECOND in flow.properties:
            change = {"key": SECOND, "before": flow.properties.pop(SECOND), "after": None}
            flow.generation += 1
            flow.save(update_fields=["properties", "generation"])
            record_edit(flow, [change], who=who)
            note(flow, what="edited", who=who, why=changes_sentence([change]))
    waiver.refresh_from_db()
    return waiver
