"""Context: what a step gets, and how it stores its numbers. Handler: a step's functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from mirrors.domain.cluster_snapshot import TopicPartition
from mirrors.domain.failback.reverse_flow import with_exclude
from mirrors.domain.failover.runbook.state_machine import Outcome
from mirrors.domain.failover.scope import Scope, scope_of
from mirrors.domain.specs import FlowSpec
from mirrors.models import FailoverRun, FailoverStep, Flow


@dataclasses.dataclass(frozen=True, kw_only=True)
class Context:
    """One step of one run. `alive` is called between requests: it raises when the lease is lost.

    `again`: an earlier attempt may have had an effect.
    """

    run: FailoverRun
    flow: Flow
    spec: FlowSpec
    row: FailoverStep
    alive: Callable[[], None]
    again: bool = False

    def keep(self, **numbers: Any) -> None:
        """Stored at once: what an undo needs is stored before the act."""
        self.row.result = {**self.row.result, **numbers}
        self.row.save(update_fields=["result"])

    def kept(self, name: str) -> dict[str, Any]:
        """The stored numbers of another step."""
        found = self.run.steps.filter(name=name).values_list("result", flat=True).first()
        return dict(found or {})

    @property
    def plan(self) -> dict[str, Any]:
        """The newest plan: the run's own, or the simulated one before that."""
        if self.run.plan is not None:
            return dict(self.run.plan)
        simulated = self.run.simulation.plan if self.run.simulation else None
        return dict(simulated or {"partitions": [], "places": [], "blockers": []})

    @property
    def source_partitions(self) -> list[TopicPartition]:
        """The partitions in the plan; a topic with unknown partitions has none."""
        rows = self.plan["partitions"]
        return [(row["topic"], row["partition"]) for row in rows if row["partition"] >= 0]

    @property
    def source_answers(self) -> bool:
        return bool(self.kept("detect").get("source_answers"))

    @property
    def scope(self) -> Scope | None:
        """The application that the run fails over; None for everything."""
        return scope_of(self.run.scope)

    @property
    def spec_before(self) -> FlowSpec:
        """The flow's settings before the run excluded the topics of its scope."""
        kept = self.kept("drain")
        if "exclude_before" not in kept:
            return self.spec
        properties = with_exclude(self.spec.properties, kept["exclude_before"])
        source, target = self.spec.source, self.spec.target
        return FlowSpec.build(source=source, target=target, properties=properties)

    @property
    def planned(self) -> bool:
        return self.run.kind == "switchover"


@dataclasses.dataclass(frozen=True)
class Handler:
    """The code of a step. `act` returns None when it did everything, else its outcome."""

    wait: Callable[[Context], Outcome]
    act: Callable[[Context], Outcome | None] = lambda _: None
    undo: Callable[[Context], str] = lambda _: "There is nothing to undo."


def done(words: str, **numbers: Any) -> Outcome:
    return Outcome(what="done", words=words, numbers=numbers)


def skipped(words: str, **numbers: Any) -> Outcome:
    return Outcome(what="skipped", words=words, numbers=numbers)


def not_yet(words: str, *, again_ms: int = 1_000, **numbers: Any) -> Outcome:
    return Outcome(what="not_yet", words=words, numbers=numbers, again_ms=again_ms)


def needs_person(words: str, **numbers: Any) -> Outcome:
    return Outcome(what="person", words=words, numbers=numbers)


def failed(words: str, *, again: bool = False, **numbers: Any) -> Outcome:
    return Outcome(what="failed", words=words, numbers=numbers, again=again)
