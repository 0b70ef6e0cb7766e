"""The Django app of clusters, flows, runners and jobs."""

from django.apps import AppConfig


class MirrorsConfig(AppConfig):
    name = "mirrors"
    verbose_name = "Replication"
