"""Decision: columns of a finding that a person decides on (data loss, drift, orphans)."""

from __future__ import annotations

from django.db import models


class Decision(models.Model):
    """Who decided on a finding, when, and why. Without `decided_at` nobody has."""

    decided_by = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    decided_why = models.TextField(blank=True)

    class Meta:
        abstract = True
