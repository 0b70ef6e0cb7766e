"""SettingChange: one changed setting of a flow; the history of its configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.db import models
from django.utils import timezone

from mirrors.domain.settings.changes import kept
from mirrors.models.flows import Flow


class SettingChange(models.Model):
    """`before` is null where the key was not set, `after` where the edit removed it."""

    flow = models.ForeignKey(Flow, on_delete=models.CASCADE, related_name="setting_changes")
    generation = models.PositiveIntegerField()
    when = models.DateTimeField(default=timezone.now)
    who = models.CharField(max_length=150)
    key = models.CharField(max_length=255)
    before = models.TextField(null=True)  # noqa: DJ001 (null: it was not set)
    after = models.TextField(null=True)  # noqa: DJ001 (null: it is not set)

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=["flow", "-id"], name="setting_changes_of"),)

    def __str__(self) -> str:
        return f"{self.key} of flow {self.flow_id}"


def keep_edit(flow: Flow, changes: Iterable[Mapping[str, str | None]], *, who: str) -> None:
    """Store what an edit changed; `flow` is its state after the edit."""
    now = timezone.now()
    SettingChange.objects.bulk_create(
        SettingChange(
            flow=flow,
            generation=flow.generation,
            when=now,
            who=who[:150],
            key=(key := str(change["key"]))[:255],
            before=kept(key, change["before"]),
            after=kept(key, change["after"]),
        )
        for change in changes
    )
