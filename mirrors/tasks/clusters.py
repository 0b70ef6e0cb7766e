"""Connection tests, and the regular look at each cluster."""

from __future__ import annotations

from celery import shared_task

from mirrors.services import clusters
from mirrors.tasks.sending import send_each


@shared_task(name="mirrors.tasks.run_test")
def run_test(test_id: int) -> None:
    clusters.run_test(test_id=test_id)


@shared_task(name="mirrors.tasks.check_clusters")
def check_clusters() -> None:
    send_each(check_cluster, clusters.due_clusters(), queue="collect", expires=9.0)


@shared_task(name="mirrors.tasks.check_cluster")
def check_cluster(cluster_id: int) -> None:
    clusters.check_cluster(cluster_id=cluster_id)


@shared_task(name="mirrors.tasks.sweep_tests")
def sweep_tests() -> None:
    clusters.sweep_tests()
