"""The Django project: settings, addresses, the queue. Wiring only, no rules."""

from controlplane.celery import app as celery_app

__all__ = ["celery_app"]
