"""Whether the flow is still ours: asked behind the fence, when nobody can take it over unseen.

Who takes a flow over writes his name, and fences every slice's id only then. So who took an id back
after that sees the name; who took it before is fenced.
"""

from __future__ import annotations

from mirrors.domain.errors import Fenced, KafkaRefused
from spark_runner.work import SliceWork


def check_owner(work: SliceWork, owner: str | None) -> None:
    """Given the owner's name as the positions topic has it by now."""
    if not work.owner or owner == work.owner:
        return
    if owner is None:
        raise KafkaRefused(
            f"Cluster {work.target.alias}: {work.positions_topic} no longer says whose the flow "
            "is, so it was emptied or made anew, and its positions are lost. Nothing is copied. "
            "Restore the topic, or say where the flow has to start and start it again.",
            code="positions_missing",
        )
    raise Fenced(
        f"Cluster {work.target.alias}: another runner has taken the flow over, as "
        f"{work.positions_topic} says."
    )
