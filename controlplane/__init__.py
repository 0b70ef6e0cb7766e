"""The Django project: settings, URLs, Celery. Wiring only, no rules."""
