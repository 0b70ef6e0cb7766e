"""Two worker hosts on one database, each with a directory of runners."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pytest_django import Settings

from mirrors.domain.runners.host_leases import LEASE_S
from mirrors.models import Host
from mirrors.services.runners import hosts


class Machine:
    """One host: its name and its directory of runners."""

    def __init__(self, name: str, root: Path, settings: Settings) -> None:
        self.name, self.root, self._settings = name, root, settings

    def renew(self) -> None:
        hosts.renew(root=self.root, host=self.name)

    def take_over(self) -> list[str]:
        return [move.runner for move in hosts.take_over(root=self.root, host=self.name)]

    def be(self) -> None:
        self._settings.RUNNER_ROOT, self._settings.UNDERSTUDY_HOST = self.root, self.name


def age(name: str, seconds: float) -> None:
    row = Host.objects.get(name=name)
    row.renewed_at -= timedelta(seconds=seconds)
    row.held_since -= timedelta(seconds=seconds)
    row.save()


def both_hold(a: Machine, b: Machine) -> None:
    for machine in (a, b, a, b):
        machine.renew()
    Host.objects.update(held_since=hosts.database_now() - timedelta(seconds=LEASE_S + 1))
