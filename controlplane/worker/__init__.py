"""What runs beside the tasks of a Celery worker: a watchdog, and the lease of its host."""
