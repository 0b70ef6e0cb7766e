"""Runbooks: a text for each kind of rule, kept in docs/runbooks and shown as pages."""

from __future__ import annotations

import re
from functools import cache

from django.conf import settings
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table")


@cache
def read(kind: str) -> tuple[str, SafeString]:
    """Its title and its text as HTML; the texts are ours, and no HTML in them counts."""
    path = settings.BASE_DIR / "docs" / "runbooks" / f"{kind}.md"
    head, _, text = path.read_text(encoding="utf-8").partition("\n")
    # As files they name each other; as pages they lie beside each other.
    text = re.sub(r"\]\((\w+)\.md\)", r"](../\1/)", text)
    return head.lstrip("# ").strip(), mark_safe(_MARKDOWN.render(text))  # noqa: S308
