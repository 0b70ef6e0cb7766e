"""The pages about states have the declared states, each machine once."""

from __future__ import annotations

from controlplane.management.commands.write_states import ALL, PAGES, rendered, titles

TEXTS = [page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("states*.md"))]


def test_the_pages_have_the_declared_states() -> None:
    """Otherwise: manage.py write_states."""
    assert [rendered(text) for text in TEXTS] == TEXTS
    assert sorted(title for text in TEXTS for title in titles(text)) == sorted(ALL)
