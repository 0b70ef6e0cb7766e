"""Whether the aliases still lead to the clusters that were planned for: asked before anything."""

from __future__ import annotations

from mirrors.domain.errors import KafkaRefused
from spark_runner.work import SliceWork


def check_clusters(work: SliceWork, source: str, target: str) -> None:
    """Given the ids of the clusters that answer; one that is not known proves nothing."""
    for alias, planned, seen in (
        (work.source.alias, work.source_cluster_id, source),
        (work.target.alias, work.target_cluster_id, target),
    ):
        if planned and seen and seen != planned:
            raise KafkaRefused(
                f"The alias {alias} now leads to another cluster ({seen}, planned was {planned}). "
                "Nothing is copied until the flow is planned anew.",
                code="generation",
            )
