"""Audit of changes to rules and channels over REST, as the pages record it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from mirrors.api.base import person
from monitoring.alerts import actions

METHODS = ["get", "post", "patch", "delete", "head", "options"]


class AuditedWrites:
    """Mixin of a ModelViewSet: each write and its audit entry in one transaction."""

    request: Any

    def perform_create(self, serializer: Any) -> None:
        with transaction.atomic():
            actions.record_change(serializer.save(), what="created", who=person(self.request))

    def perform_update(self, serializer: Any) -> None:
        with transaction.atomic():
            actions.record_change(serializer.save(), what="edited", who=person(self.request))

    def perform_destroy(self, instance: Any) -> None:
        with transaction.atomic():
            actions.record_change(instance, what="deleted", who=person(self.request))
            instance.delete()
