"""The Django project: settings, URLs, Celery. Wiring only, no rules."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]
