"""StandbyNote: what of a flow was last written to its target, so that only changes are written."""

from __future__ import annotations

from django.db import models

from mirrors.models.flows import Flow


class StandbyNote(models.Model):
    """`digests` by kind, of what is in the topic with the id `topic_id`."""

    flow = models.OneToOneField(Flow, on_delete=models.CASCADE, related_name="standby_note")
    topic_id = models.CharField(max_length=64, blank=True)
    digests = models.JSONField(default=dict)
    as_of = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"what is kept of flow {self.flow_id}"
