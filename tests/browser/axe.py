"""Axe on a page: all its rules, and colors once for each combination of what decides a contrast."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe

from tests.browser.conftest import Visitor

_OF_COLORS = ["color-contrast", "link-in-text-block"]
_GATHER, _CHECK = Path(__file__).with_name("colors.js").read_text().split("// ---\n")
_RUN = "options => axe.run(options).then(found => found.violations)"
# Its stylesheets are read a second time for rules that no page here needs.
_OPTIONS: dict[str, Any] = {"resultTypes": ["violations"], "preload": False}
# What axe does not judge on that many pages, such as a single letter, it never does.
_TRIES = 3


def violations(visitor: Visitor, *, colors: bool = True) -> list[str]:
    """Those of all rules, or of all but the ones about colors."""
    _load(visitor)
    rules = {} if colors else {"rules": {rule: {"enabled": False} for rule in _OF_COLORS}}
    return _sentences(visitor.page.evaluate(_RUN, {**_OPTIONS, **rules}))


class Colors:
    """The combinations of color, background, size and so on that axe has judged already.

    Elements with the same combination have the same contrast, on whichever page. To look at each
    of them takes as long as all other rules together: `each` does so.
    """

    def __init__(self, *, each: bool = False) -> None:
        self._each = each
        self._judged: set[str] = set()
        self._tries: Counter[str] = Counter()

    def violations(self, visitor: Visitor) -> list[str]:
        keys = [key for key in visitor.page.evaluate(_GATHER) if self._is_open(key)]
        if not keys:
            return []
        _load(visitor)
        options = {**_OPTIONS, "resultTypes": ["violations", "passes"], "elementRef": True}
        options["runOnly"] = {"type": "rule", "values": _OF_COLORS}
        found = visitor.page.evaluate(_CHECK, [keys, options, self._each])
        self._tries.update(keys)
        self._judged.update(found["judged"])
        return _sentences(found["violations"])

    def _is_open(self, key: str) -> bool:
        return self._each or (key not in self._judged and self._tries[key] < _TRIES)


def _load(visitor: Visitor) -> None:
    if visitor.page.evaluate("typeof axe === 'undefined'"):
        visitor.page.evaluate(Axe().axe_script)


def _sentences(found: list[dict[str, Any]]) -> list[str]:
    return [
        f"{rule['id']}: {node['html'][:160]}: {node['failureSummary'][:200]}"
        for rule in found
        for node in rule["nodes"][:2]
    ]
