"""What people change of rules and channels over REST is written down, as pages do it."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from mirrors.api.base import person
from monitoring.alerts import actions

METHODS = ["get", "post", "patch", "delete", "head", "options"]


class Noted:
    """Beside a ModelViewSet: the act and its transition in one transaction."""

    request: Any

    def perform_create(self, serializer: Any) -> None:
        with transaction.atomic():
            actions.noted(serializer.save(), what="created", who=person(self.request))

    def perform_update(self, serializer: Any) -> None:
        with transaction.atomic():
            actions.noted(serializer.save(), what="edited", who=person(self.request))

    def perform_destroy(self, instance: Any) -> None:
        with transaction.atomic():
            actions.noted(instance, what="deleted", who=person(self.request))
            instance.delete()
