"""What a flow asks for and its lane does nothing with: said once a plan, in sentences."""

from __future__ import annotations

from mirrors.domain.jobs import JobSpec
from mirrors.domain.keys.client_keys import without_effect
from mirrors.domain.keys.control import HIGH, LOW
from mirrors.domain.priority.ranks import Ranks
from mirrors.domain.specs import FlowSpec

NO_CLASSES = (
    f"{HIGH} and {LOW} have no effect in the record lane, which reads all partitions in turn: run "
    "this flow in a runner that copies by the raw lane."
)


def warnings_of(job: JobSpec, lane: str) -> tuple[str, ...]:
    flow = FlowSpec(source=job.source, target=job.target, properties=job.properties)
    settings = flow.settings
    if lane != "raw":
        return (NO_CLASSES,) if Ranks(settings).are_used else ()
    return (
        *without_effect(settings.consumer, "consumer"),
        *without_effect(settings.producer, "producer"),
    )
