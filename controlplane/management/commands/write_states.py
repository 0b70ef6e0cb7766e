"""`manage.py write_states`: write the declared states into the pages `docs/design/states*.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from mirrors.domain.state_machine import StateMachine
from mirrors.domain.states import MACHINES
from monitoring.domain.alerts.states import MACHINES as MACHINES_OF_ALERTS
from spark_runner.flow.state import PHASES

PAGES = Path(__file__).parents[3] / "docs/design"
ALL: dict[str, StateMachine] = {
    "Phases of a flow in a runner": PHASES,
    **MACHINES,
    **MACHINES_OF_ALERTS,
}
# What stands between heading and end marker is generated.
_SECTION = re.compile(
    r"^## ([^\n]+)\n\n<!-- generated -->\n.*?<!-- end -->$", re.MULTILINE | re.DOTALL
)


class Command(BaseCommand):
    help = "Write the declared states of flows, runs, findings and alerts into docs/design."

    def handle(self, *args: Any, **options: Any) -> None:
        for page in sorted(PAGES.glob("states*.md")):
            page.write_text(rendered(page.read_text(encoding="utf-8")), encoding="utf-8")


def rendered(text: str) -> str:
    """The page with the current declaration below each generated heading."""
    return _SECTION.sub(lambda found: _section(found[1]), text)


def titles(text: str) -> list[str]:
    return [found[1] for found in _SECTION.finditer(text)]


def _section(title: str) -> str:
    machine = ALL[title]
    drawing = f"```mermaid\n{machine.mermaid()}\n```"
    body = f"{machine.markdown()}\n\n{drawing}"
    return f"## {title}\n\n<!-- generated -->\n{body}\n<!-- end -->"
