"""How much memory a runner takes: its driver, Spark's JVM, the Python workers beside them."""

from __future__ import annotations

import psutil


def measure(driver: psutil.Process, *, has_workers_here: bool) -> dict[str, int]:
    """Bytes by part. Workers on executors elsewhere are not known here, so they have no figure.

    Workers are forks that share pages with their parent: each page counts once over all.
    """
    parts = {"driver": _size(driver), "jvm": 0}
    if has_workers_here:
        parts["workers"] = 0
    for child in _children(driver):
        part = "jvm" if _name(child) == "java" else "workers"
        parts[part] = parts.get(part, 0) + _size(child)
    return parts


def _children(driver: psutil.Process) -> list[psutil.Process]:
    try:
        return driver.children(recursive=True)
    except psutil.Error:
        return []


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def _size(process: psutil.Process) -> int:
    """Its share of the pages in memory; resident ones where the kernel tells no shares."""
    try:
        full = process.memory_full_info()
        return int(getattr(full, "pss", 0) or full.rss)
    except (psutil.Error, OSError):
        pass
    try:
        return int(process.memory_info().rss)
    except psutil.Error:  # it ended meanwhile
        return 0
