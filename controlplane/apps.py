"""The Django app of the project, and its admin site."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig

from controlplane import checks
from controlplane.database import connections


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Control plane"

    def ready(self) -> None:
        checks.install()
        connections.install()


class UsersAdminConfig(AdminConfig):
    default_site = "controlplane.admin_site.RoleAdminSite"
