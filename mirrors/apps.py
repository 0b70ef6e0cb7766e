"""The Django app of clusters, flows, runners and jobs."""

from django.apps import AppConfig


class MirrorsConfig(AppConfig):
    name = "mirrors"
    verbose_name = "Replication"

    def ready(self) -> None:
        # Models are loaded by now.
        from mirrors.services import users  # noqa: PLC0415
        from mirrors.services.audit import accounts  # noqa: PLC0415

        accounts.connect()
        users.connect()
