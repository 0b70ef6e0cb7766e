"""The files of user code: read from the directory of the installation, and checked.

Each process reads them on its own host. The bytes that were checked are those that are executed.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from mirrors.domain.errors import UnderstudyError
from mirrors.domain.transforms.modules import (
    FUNCTIONS_DIR,
    MOST_BYTES,
    Module,
    digest_of,
    is_module_name,
)
from mirrors.domain.transforms.rules import TransformRule


class ModuleRefused(UnderstudyError):
    """A module cannot be used on this host: the setting, the file or its SHA-256."""

    code = "module_refused"


def read_module(name: str, environ: Mapping[str, str] = os.environ) -> bytes:
    """The text of a module. Raises ModuleRefused with a sentence."""
    host = socket.gethostname()
    directory = Path(environ.get(FUNCTIONS_DIR, ""))
    if not environ.get(FUNCTIONS_DIR):
        raise ModuleRefused(
            f"Rules cannot call functions of Python modules such as {name}: {FUNCTIONS_DIR} is not "
            f"set on {host}. Set it to the directory of the modules, for web, workers and runners, "
            "and restart them."
        )
    path = directory / f"{name}.py"
    if not directory.is_absolute() or not directory.is_dir():
        raise ModuleRefused(
            f"{FUNCTIONS_DIR} names {directory}, which is no directory on {host}. Create it there, "
            "or correct the setting."
        )
    # The real path decides: no symbolic link leads out of the directory.
    real = Path(os.path.realpath(path))
    is_inside = is_module_name(name) and real.is_relative_to(os.path.realpath(directory))
    if not is_inside or not real.is_file():
        raise ModuleRefused(f"There is no file {path} on {host}. Put it there.")
    try:
        for place in (directory, real):
            if place.stat().st_mode & stat.S_IWOTH:
                raise ModuleRefused(
                    f"Anybody on {host} can write to {place}. Remove that right (chmod o-w)."
                )
        with real.open("rb") as stream:
            source = stream.read(MOST_BYTES + 1)
    except OSError as error:
        why = error.strerror or "an I/O error"
        raise ModuleRefused(f"{path} cannot be read on {host}: {why}. Make it readable.") from None
    if len(source) > MOST_BYTES:
        raise ModuleRefused(f"{path} on {host} is larger than {MOST_BYTES >> 20} MiB.")
    return source


def checked_module(module: Module, environ: Mapping[str, str] = os.environ) -> bytes:
    """The text of the module if its SHA-256 is that of the rule. Raises ModuleRefused."""
    source = read_module(module.name, environ)
    if (digest := digest_of(source)) != module.sha256:
        raise ModuleRefused(
            f"{module.file} in {environ[FUNCTIONS_DIR]} on {socket.gethostname()} has the SHA-256 "
            f"{digest}, but the rule is saved for {module.sha256}. Put that file back, or let an "
            "admin save the rule for the new one."
        )
    return source


def refused_rules(rules: Sequence[TransformRule]) -> dict[int, str]:
    """Why user code of rules cannot be used on this host, by the index of the rule."""
    found = {}
    for index, rule in enumerate(rules):
        try:
            for module in rule.modules:
                checked_module(module)
        except ModuleRefused as error:
            found[index] = error.message
    return found
