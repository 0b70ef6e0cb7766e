"""The Django app of the project, and its admin site."""

from django.apps import AppConfig
from django.contrib.admin.apps import AdminConfig
from django.contrib.auth.signals import user_logged_in
from django.utils.module_loading import import_string

from controlplane import checks
from controlplane.database import connections


class ControlPlaneConfig(AppConfig):
    name = "controlplane"
    verbose_name = "Control plane"

    def ready(self) -> None:
        checks.install()
        connections.install()
        # Its module needs models, which are loaded only now.
        remember_zone = import_string("controlplane.web.middleware.remember_zone")
        user_logged_in.connect(remember_zone, dispatch_uid="zone of the person")


class UsersAdminConfig(AdminConfig):
    default_site = "controlplane.admin_site.RoleAdminSite"
