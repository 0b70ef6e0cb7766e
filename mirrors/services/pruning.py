"""Rows that nobody will read again are removed, so that the tables stay small."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from mirrors.models import ClusterTest, Comparison, Drift, DutyRun, Gap, Job, Transition
from mirrors.services.evidence.evidence_pruning import delete_old_runs, drop_old_rows
from mirrors.services.sightings import forget_gone

_TESTS_FOR = timedelta(days=7)
_TRANSITIONS_FOR = timedelta(days=400)
_JOBS_FOR = timedelta(days=90)
_COMPARISONS_FOR = _JOBS_FOR
_DUTY_RUNS_FOR = timedelta(days=30)
_GAPS_FOR = _TRANSITIONS_FOR


def prune() -> dict[str, int]:
    """How many rows of each kind went."""
    now = timezone.now()
    tests, _ = ClusterTest.objects.filter(created_at__lt=now - _TESTS_FOR).delete()
    jobs, _ = Job.objects.filter(ended_at__lt=now - _JOBS_FOR).delete()
    duty_runs, _ = DutyRun.objects.filter(ended_at__lt=now - _DUTY_RUNS_FOR).delete()
    old = Comparison.objects.filter(ended_at__lt=now - _COMPARISONS_FOR)
    compared = old.count()
    old.delete()
    gaps, _ = Gap.objects.filter(closed_at__lt=now - _GAPS_FOR).delete()
    drift, _ = Drift.objects.filter(closed_at__lt=now - _GAPS_FOR).delete()
    transitions, _ = Transition.objects.filter(when__lt=now - _TRANSITIONS_FOR).delete()
    return {
        "tests": tests,
        "jobs": jobs,
        "duty_runs": duty_runs,
        "comparisons": compared,
        "gaps": gaps,
        "drift": drift,
        "transitions": transitions,
        "evidence": drop_old_rows(now=now),
        "simulations": delete_old_runs(now=now),
        "sightings": forget_gone(),
    }
