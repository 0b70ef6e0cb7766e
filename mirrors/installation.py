"""Where this program's files are: in a checkout or an image, or in an installed package.

A checkout keeps what it writes beside its code. An installed package may not be written to, so it
keeps its files in `state_directory()`, and carries templates and runbooks inside `controlplane`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# The directory that holds the packages `mirrors`, `controlplane` and so on.
CODE = Path(__file__).resolve().parents[1]
# Sets the directory of an installed package; a checkout does not read it.
HOME = "UNDERSTUDY_HOME"


def is_checkout(code: Path = CODE) -> bool:
    """Whether the code is a checkout (or a copy of one, as in the image)."""
    return (code / "manage.py").is_file() and (code / "templates").is_dir()


def resource_directory(code: Path = CODE) -> Path:
    """The directory with `templates` and `docs/runbooks`."""
    return code if is_checkout(code) else code / "controlplane" / "resources"


def state_directory(environ: Mapping[str, str] = os.environ, code: Path = CODE) -> Path:
    """Where the database, keys, runners and compiled modules are by default.

    A checkout: the checkout. A package: UNDERSTUDY_HOME, else `understudy` below XDG_DATA_HOME,
    else `~/.local/share/understudy`. The directory need not exist.
    """
    if is_checkout(code):
        return code
    if chosen := environ.get(HOME):
        return Path(chosen).expanduser().absolute()
    data = environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "understudy"


def code_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`environ` with the directory of the code first on PYTHONPATH.

    Programs that start with it find the packages in any working directory.
    """
    others = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    path = [str(CODE), *(part for part in others if part != str(CODE))]
    return {**environ, "PYTHONPATH": os.pathsep.join(path)}
