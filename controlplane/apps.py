"""The Django app of the project, and its admin site."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.signals import user_logged_in
from django.utils.module_loading import import_string

from controlplane import celery, checks
from controlplane.database import connections


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Control plane"

    def ready(self) -> None:
        # Tasks that this program sends belong to our Celery app.
        celery.app.set_default()
        checks.install()
        connections.install()
        user_logged_in.connect(remember_zone, dispatch_uid="zone of the person")


def remember_zone(**sent: Any) -> None:
    """Load the module at the first sign-in: it needs models and REST, which workers do not load."""
    import_string("controlplane.web.middleware.remember_zone")(**sent)


class UsersAdminConfig(AdminConfig):
    default_site = "controlplane.admin_site.RoleAdminSite"
