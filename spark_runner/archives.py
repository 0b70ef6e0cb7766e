"""Java's class archives in the cache: those of environments that are gone do not pile up.

Each has a name of its own by Java and jars, and beside it the lock of whoever makes it; after a
kill there may be what was half written. To take one away while a Java has it mapped harms nobody;
whoever looked for it a moment ago would start slower, and so one that was just used stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from collections import defaultdict
from pathlib import Path

KEPT = 3
RECENT_S = 3600.0
_NAME = re.compile(r"(.+-[0-9a-f]{16})\.(?:jsa|lock|\d+)")


def mark_used(archive: Path) -> None:
    """Its time is when somebody last started with it."""
    with contextlib.suppress(OSError):
        os.utime(archive)


def prune(archive: Path, now: float) -> None:
    """This one stays, and of the others of its kind those used last; what failed goes."""
    kind = archive.name.partition("-")[0]
    families: defaultdict[str, dict[Path, float]] = defaultdict(dict)
    for path in archive.parent.glob(f"{kind}-*"):
        found = _NAME.fullmatch(path.name)
        if found and found[1] != archive.stem:
            with contextlib.suppress(OSError):
                families[found[1]][path] = path.stat().st_mtime
    whole = sorted(
        (used, stem)
        for stem, family in families.items()
        for path, used in family.items()
        if path.suffix == ".jsa"
    )
    stay = {stem for _, stem in whole[-KEPT:]}
    for stem, family in families.items():
        kept = {".jsa", ".lock"} if stem in stay else set()
        old = [path for path, used in family.items() if now - used > RECENT_S]
        _remove(archive.with_name(f"{stem}.lock"), [p for p in old if p.suffix not in kept])


def _remove(lock: Path, paths: list[Path]) -> None:
    """Unless somebody is making one; the lock goes last, while it is ours."""
    if not paths:
        return
    with contextlib.suppress(OSError), lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for path in sorted(paths, key=lambda path: path == lock):
            path.unlink(missing_ok=True)
        if not lock.with_suffix(".jsa").exists():
            lock.unlink(missing_ok=True)
