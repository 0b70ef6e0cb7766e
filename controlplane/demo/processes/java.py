"""Find a Java that can run Kafka and Spark, and run Java with an environment without secrets."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess

from controlplane.demo.errors import DemoError
from controlplane.demo.processes.ownership import VARIABLE

LEAST = 17
HINT = "Install a Java 17 or newer runtime (Debian: apt install default-jre-headless)"

# Kafka and Ivy get these and nothing else: neither a database password nor a token of the person
# who started the demo belongs in the environment of a broker.
_HANDED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "JAVA_HOME", VARIABLE)


def plain_environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """What a Java child sees of our environment: where things are, never a secret."""
    kept = {name: os.environ[name] for name in _HANDED_ON if name in os.environ}
    return {**kept, **(extra or {})}


def find_java() -> str:
    """The path of a Java of version 17 or newer: JAVA_HOME's first, then the one on PATH."""
    return _find_java(os.environ.get("JAVA_HOME", ""), os.environ.get("PATH", ""))


@functools.cache
def _find_java(home: str, _path: str) -> str:
    wanted = os.path.join(home, "bin", "java") if home else "java"
    path = shutil.which(wanted)
    if path is None:
        where = f"JAVA_HOME points at {home}, which has no bin/java" if home else "none is on PATH"
        raise DemoError(f"Java is missing: {where}. {HINT} and try again.", code="java_missing")
    version = java_version(path)
    if version < LEAST:
        raise DemoError(
            f"Java {version} at {path} is too old: Kafka 4 and Spark need {LEAST} or newer. "
            f"{HINT}, or point JAVA_HOME at one.",
            code="java_too_old",
        )
    return path


def java_version(path: str) -> int:
    """The major version of the Java at this path."""
    try:
        done = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=30, env=plain_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoError(
            f"Java at {path} does not run ({error}). {HINT}, or point JAVA_HOME at one.",
            code="java_broken",
        ) from error
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        raise DemoError(
            f"Java at {path} does not tell its version. {HINT}, or point JAVA_HOME at one.",
            code="java_broken",
        )
    return int(found.group(1))
