"""The tables of docs/mm2-compatibility.md, generated from the tables in the code.

`python -m tests.domain.compatibility` writes them into the page; a test fails when they differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from mirrors.domain.settings import client_properties
from mirrors.domain.settings.table import KEYS, Setting
from mirrors.domain.settings.unsupported_mm2 import FAMILIES, NEVER, ONE_VALUE
from mirrors.domain.settings.value_types import Key
from tests.domain.key_tests import PROOFS

PAGE = Path(__file__).parent.parent.parent / "docs" / "mm2-compatibility.md"
_BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def render(page: str) -> str:
    """The page with every table between its marks generated again."""
    return _BLOCK.sub(lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}", page)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', '&#124;') for cell in line)} |" for line in lines
    )


def _code(text: str | None) -> str:
    return f"`{text}`" if text else "–"  # noqa: RUF001 - the sign for "none"


def _proof(key: Setting) -> str:
    """The test in a line that a table can break."""
    path, _, name = PROOFS.get(key.name, "").removeprefix("tests/").partition("::")
    return f"{_code(path)}: {name.removeprefix('test_').replace('_', ' ')}" if name else _code("")


def _settings(verdict: str) -> list[Setting]:
    return [key for key in KEYS.values() if key.verdict == verdict]


def _honoured() -> str:
    rows = (
        (_code(k.name), _code(k.default), k.kind.description, k.meaning, _proof(k))
        for k in _settings("honoured")
    )
    return _table(("key", "default", "takes", "meaning", "shown by"), rows)


def _different() -> str:
    rows = (
        (
            _code(k.name),
            _code(k.mm2),
            _code(k.default),
            k.kind.description,
            k.meaning,
            k.why,
            _proof(k),
        )
        for k in _settings("different")
    )
    head = ("key", "MM2's default", "here", "takes", "meaning", "what differs, and why", "shown by")
    return _table(head, rows)


def _ours() -> str:
    rows = (
        (_code(k.name), _code(k.default), k.kind.description, k.meaning, _proof(k))
        for k in _settings("ours")
    )
    return _table(("key", "default", "takes", "meaning", "shown by"), rows)


def _fixed() -> str:
    keys = (key for key in ONE_VALUE if key.only)
    rows = (
        (_code(k.name), _code(k.mm2), ", ".join(map(_code, k.only)), k.meaning, k.why) for k in keys
    )
    return _table(("key", "MM2's default", "accepted", "meaning", "why nothing else"), rows)


def _refused(keys: Iterable[Key]) -> str:
    rows = ((_code(k.name), _code(k.mm2), k.meaning, k.why) for k in keys if not k.only)
    return _table(("key", "MM2's default", "meaning", "why"), rows)


def _families() -> str:
    return _table(("keys", "why"), ((_code(f"{name}*"), why) for name, why in FAMILIES.items()))


def _clients(role: client_properties.Role) -> Callable[[], str]:
    def rows() -> Iterable[tuple[str, ...]]:
        for key in client_properties.TABLES[role].values():
            if role == "cluster" or key.name not in client_properties.COMMON:
                yield _code(key.name), key.kind.description, key.meaning, key.raw or "works"

    return lambda: _table(("property", "takes", "meaning", "in the raw lane"), rows())


def _client_refusals() -> str:
    rows = ((_code(name), why) for name, why in client_properties.REFUSED.items())
    return _table(("property", "it …"), rows)


TABLES: dict[str, Callable[[], str]] = {
    "honoured": _honoured,
    "different": _different,
    "ours": _ours,
    "fixed": _fixed,
    "never": lambda: _refused(NEVER),
    "families": _families,
    "cluster": _clients("cluster"),
    "consumer": _clients("consumer"),
    "producer": _clients("producer"),
    "client_refusals": _client_refusals,
}

if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text()))
