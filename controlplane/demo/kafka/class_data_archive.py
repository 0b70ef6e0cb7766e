"""Java's archive of a broker's classes: made once, so that later brokers start in half the time.

It lies in the cache beside the jars, one per Java and jars. Java ignores one that does not fit, and
a broker whose cache cannot be used starts without: nothing but time depends on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from controlplane.demo.errors import DemoError
from controlplane.demo.kafka.jars import BROKER, kafka_jars
from controlplane.demo.processes.java import find_java
from spark_runner.spark.java import mark_used, prune


def archive_options(make: Callable[[Path], None]) -> list[str]:
    """Arguments of a broker's Java; `make` has one leave its classes at a path and end.

    Of several starts at the same time one makes it, and the others start without it.
    """
    try:
        path = archive_path()
        if not path.exists():
            _make_once(path, make)
        mark_used(path)
        usable = path.stat().st_size > 0
    except OSError:
        return []
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto"] if usable else []


def archive_path() -> Path:
    """Another Java, or jars that were fetched again, have another archive.

    Whole seconds: an image keeps no more of them.
    """
    java, jars = Path(find_java()).resolve(), kafka_jars()
    times = [int(path.stat().st_mtime) for path in (java, *sorted(jars.glob("*.jar")))]
    facts = f"{java} {jars} {times}"
    digest = hashlib.sha256(facts.encode()).hexdigest()[:16]
    return jars.with_name(f"{BROKER.name}-{digest}.jsa")


def _make_once(path: Path, make: Callable[[Path], None]) -> None:
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if path.exists():
            return
        # The process that was to create one before us was killed.
        for left in path.parent.glob(f"{path.stem}.[0-9]*"):
            left.unlink()
        fresh = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(DemoError, OSError, subprocess.SubprocessError):
            make(fresh)
        # Empty: this Java leaves none, and no later start tries it again.
        fresh.touch()
        fresh.rename(path)
        prune(path, time.time())
