"""A failover over REST whose worker is killed, and one that is aborted.

Real workers, a real runner, live traffic. The demo's brokers keep no access rules, so people do
what reaches outside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psutil
import pytest

from controlplane.demo.stack import DemoStack
from tests.journeys.test_simulation import ENDED, Ask, Until, ask

__all__ = ["ask"]


def step(run: dict[str, Any], name: str) -> dict[str, Any]:
    return next(row for row in run["steps"] if row["name"] == name)


def kill_the_worker(stage: DemoStack) -> None:
    worker = next(child for child in stage.supervisor.children if child.name == "celery-tasks")
    assert worker.process is not None
    parent = psutil.Process(worker.process.pid)
    for process in [*parent.children(recursive=True), parent]:
        process.kill()


@pytest.mark.soak
def test_a_failover_goes_on_after_its_worker_was_killed_and_an_abort_undoes_all_of_it(
    stage: DemoStack,
    ask: Ask,
    until: Until,
) -> None:
    simulation = ask("failovers/", {"flow": "primary->backup", "kind": "simulation"})
    path = f"failovers/{simulation['id']}/"
    until(lambda: ask(path)["state"] in ENDED, 90, "the simulation has ended")
    asked = {"kind": "failover", "simulation": simulation["id"], "reason": "a rehearsal"}
    asked |= {"flow": "primary->backup", "confirm_alias": "backup"}
    path = f"failovers/{ask('failovers/', asked)['id']}/"

    def waits_at(name: str) -> Callable[[], bool]:
        def is_so() -> bool:
            run = ask(path)
            assert run["state"] not in ENDED, run["reason"]
            return run["waits_for"] == "person" and step(run, name)["state"] == "waiting"

        return is_so

    until(waits_at("fence_producers"), 60, "the fence asks a person")
    assert "no authorizer" in step(ask(path), "fence_producers")["reason"]
    ask(f"{path}confirm/", {"reason": "they are stopped"})
    until(
        lambda: step(ask(path), "fence_producers")["result"].get("ends"), 30, "the ends are watched"
    )
    kill_the_worker(stage)
    until(waits_at("start_consumers"), 180, "another worker has gone on from there")
    run = ask(path)
    assert step(run, "drain")["attempt"] >= 1
    assert (
        step(run, "reset_groups")["result"]["moved"]
        + step(run, "reset_groups")["result"]["in_place"]
    )
    flow = ask(f"flows/{run['flow']}/")
    assert flow["desired_state"] == "stopped"
    ask(f"{path}abort/", {"reason": "it was a rehearsal"})
    until(lambda: ask(path)["state"] in ENDED, 60, "all is undone")
    run = ask(path)
    assert run["state"] == "aborted", run["reason"]
    until(
        lambda: ask(f"flows/{run['flow']}/")["observed_state"] == "running",
        90,
        "the flow runs again",
    )
