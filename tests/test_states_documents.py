"""The pages about states have the declared states, each machine once."""

from __future__ import annotations

import re
from pathlib import Path

from controlplane.management.commands.write_states import ALL, PAGES, rendered, titles
from mirrors.domain.schemas.plan import STATES as OF_SUBJECTS

TEXTS = [page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("states*.md"))]


CSS = Path(__file__).parents[1] / "controlplane/static/controlplane/app.css"
# Phases of a runner are on no page.
SHOWN = [machine for title, machine in ALL.items() if title != "Phases of a flow in a runner"]


def test_each_state_has_a_color_on_pages_unless_it_means_unknown() -> None:
    colored = set(re.findall(r'\[data-state="(\w+)"\]', CSS.read_text(encoding="utf-8")))
    states = {name for machine in SHOWN for name in machine.names} | set(OF_SUBJECTS)
    assert states - colored == {"stale", "unknown"}


def test_the_pages_have_the_declared_states() -> None:
    """Otherwise: manage.py write_states."""
    assert [rendered(text) for text in TEXTS] == TEXTS
    assert sorted(title for text in TEXTS for title in titles(text)) == sorted(ALL)
