"""What people did, of all that was written down: transitions without those of our own processes."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from mirrors.models.failovers import FailoverRun
from mirrors.models.flows import Flow
from mirrors.models.transitions import Transition

# Who in a transition is one of our own processes, not a person.
OURS = ("reconciler", "runner", "worker", "duty", "takeover")


def by_people(rows: QuerySet[Transition]) -> QuerySet[Transition]:
    return rows.exclude(who__in=OURS)


def acts_on(flow: Flow) -> QuerySet[Transition]:
    """What people did to a flow and had done with its failovers."""
    runs = FailoverRun.objects.filter(flow=flow).values("pk")
    of_runs = Q(subject="failoverrun", subject_id__in=runs)
    of_flow = Q(subject="flow", subject_id=flow.pk)
    return by_people(Transition.objects.filter(of_flow | of_runs))
