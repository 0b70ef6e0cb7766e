"""Serves plotly.min.js of the package plotly as the static file `plotly/plotly.min.js`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.contrib.staticfiles.finders import BaseFinder
from django.core.files.storage import FileSystemStorage

NAME = "plotly.min.js"
PREFIX = "plotly"


class PlotlyFinder(BaseFinder):
    """Finds only this file; the package also has data sets and widgets that no page uses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        package = importlib.util.find_spec("plotly")
        folder = Path(package.origin).parent if package and package.origin else Path()
        self.storage = FileSystemStorage(location=folder / "package_data")
        self.storage.prefix = PREFIX  # type: ignore[attr-defined]

    def check(self, **kwargs: Any) -> list[Any]:
        return []  # controlplane.checks reports a missing script

    def find(self, path: str, find_all: bool = False, **kwargs: Any) -> Any:
        found = path == f"{PREFIX}/{NAME}" and self.storage.exists(NAME)
        full = self.storage.path(NAME)
        if find_all:
            return [full] if found else []
        return full if found else None

    def list(self, ignore_patterns: Any) -> Iterator[tuple[str, FileSystemStorage]]:
        if self.storage.exists(NAME):
            yield NAME, self.storage
