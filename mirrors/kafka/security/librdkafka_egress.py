"""The plugin that makes librdkafka ask the egress rules before each of its connections (egress.c).

`make compiled` builds it; a remote executor unpacks it from the zip of its program. Without it,
librdkafka's connections to advertised addresses are not checked: `manage.py check --deploy` warns.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from mirrors.kafka.security.cleartext_logins import exposed_secret
from mirrors.kafka.security.connection_settings import ConnectionFacts

ROOT = Path(__file__).resolve().parents[3]
SOURCE = Path(__file__).with_name("egress.c")
FOLDER = ROOT / ".compiled"
UNPACKED = ROOT.with_name("understudy-compiled")
_TIMEOUT_S = 120
log = logging.getLogger(__name__)


def properties(facts: ConnectionFacts) -> dict[str, str]:
    """librdkafka's properties that load the plugin; empty where it is not compiled."""
    path = find()
    if path is None:
        return {}
    exposed = exposed_secret(mechanism=facts.mechanism, tls=facts.tls is not None)
    return {
        "plugin.library.paths": str(path),
        "understudy.login.exposed": "true" if exposed else "false",
    }


@functools.cache
def find() -> Path | None:
    """The compiled plugin of the present source, or the one that came with this program."""
    if ROOT.is_file():
        found = next(iter(sorted(UNPACKED.glob("egress-*.so"))), None)
    else:
        found = _path(FOLDER) if _path(FOLDER).is_file() else None
    if found is None:
        log.warning(
            "librdkafka connects to advertised addresses without the egress rules: "
            "run `make compiled`"
        )
    return found


def build(folder: Path = FOLDER) -> str:
    """Compile the plugin into the folder, completely or not at all. Returns the error."""
    path = _path(folder)
    if path.is_file():
        return ""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        return f"there is no C compiler ({compiler[0]})"
    flags = ("-shared", "-fPIC", "-O2", "-std=gnu11", "-Wall", "-Wextra", "-fvisibility=hidden")
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        made = Path(name) / path.name
        command = [*compiler, *flags, str(SOURCE), "-o", str(made), "-ldl"]
        try:
            done = subprocess.run(  # noqa: S603 - fixed flags, the compiler of this installation
                command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"the compiler was not done after {_TIMEOUT_S} s"
        if done.returncode:
            return done.stderr[-2000:]
        made.rename(path)
    return ""


def _path(folder: Path) -> Path:
    return folder / f"egress-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:20]}.so"
