"""How the suite is shared among processes (`make test` runs two): a folder stays whole.

What is slow to start (brokers, Spark, the stage of the demo) belongs to a session, so a folder that
shares it must not be split; the longest folders go first, so that none is left over at the end.
"""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

_LONGEST_FIRST = (
    "spark",
    "journeys",
    "mirrors",
    "demo",
    "wire",
    "browser",
    "security",
    "api",
    "groups",
)


class ByFolder(LoadScopeScheduling):
    """One folder below tests/ after the other to whoever has nothing left to do."""

    def _split_scope(self, nodeid: str) -> str:
        return folder_of(nodeid)


def folder_of(nodeid: str) -> str:
    """`tests/wire/test_fetch.py::test_it` -> `wire`; a file of tests/ itself -> its own name."""
    return PurePosixPath(nodeid.partition("::")[0]).parts[1]


def longest_first(items: list[pytest.Item]) -> None:
    """Put the folders that take long before the others; within one the order stays."""
    places = {name: at for at, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(folder_of(item.nodeid), len(places)))
