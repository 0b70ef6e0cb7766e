"""The engine's hot modules as machine code, where it was made from exactly these sources.

`python -m spark_runner.compile` makes C extensions of them with mypyc; from then on `use()`, which
the packages of the engine call before anything of theirs is imported, finds those instead of the
sources. Whatever is not there, or was made of other sources, by another Python or for another
machine, is not used: then the sources run as they are, in the same way, and cost more.
UNDERSTUDY_COMPILED=0 says not to look.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import tempfile
import zipfile
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".compiled"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
SWITCH = "UNDERSTUDY_COMPILED"
# Where it is in the zip that goes to executors.
SENT = "compiled/"
# What compiled code may have taken a constant or a layout from.
SOURCES = ("spark_runner", "mirrors/domain", "mirrors/kafka")
WITHOUT = "the engine runs interpreted, which takes more processor time: `make compiled` mends that"

# Not those in which the search by seed replaces methods: so it can look into the machine code too.
# Ours alone are typed all through; what gets values from untyped libraries stays as it is, since
# a wrong annotation is an error in machine code.
MODULES = (
    "spark_runner.lanes.arena",
    "spark_runner.lanes.counts",
    "spark_runner.lanes.drain",
    "spark_runner.lanes.ears",
    "spark_runner.lanes.flights",
    "spark_runner.lanes.engine",
    "spark_runner.lanes.homes",
    "spark_runner.lanes.intake",
    "spark_runner.lanes.left_out",
    "spark_runner.lanes.lull",
    "spark_runner.lanes.members",
    "spark_runner.lanes.outlet",
    "spark_runner.lanes.pace",
    "spark_runner.lanes.parcel",
    "spark_runner.lanes.piece",
    "spark_runner.lanes.prepare",
    "spark_runner.lanes.repack",
    "spark_runner.lanes.returns",
    "spark_runner.lanes.scan",
    "spark_runner.lanes.sockets",
    "spark_runner.lanes.sources",
    "spark_runner.lanes.splice",
    "spark_runner.lanes.stops",
    "spark_runner.lanes.stride",
    "spark_runner.lanes.tally",
    "spark_runner.lanes.track",
    "spark_runner.lanes.walk",
    "spark_runner.lanes.window",
    "spark_runner.wire.batch",
    "spark_runner.wire.codecs",
    "spark_runner.wire.crc32c_patch",
    "spark_runner.wire.fetch",
    "spark_runner.wire.heads",
    "spark_runner.wire.produce",
    "spark_runner.wire.records",
    "spark_runner.wire.stream",
    "spark_runner.wire.tls",
    "spark_runner.wire.varint",
)
# Written in C, for functions that the Python beside them can do without.
BY_HAND = "spark_runner.wire.native"


def place() -> Path:
    """Where the machine code of these very sources belongs, for this Python."""
    seen = hashlib.sha256(SUFFIX.encode())
    for folder in SOURCES:
        found = (ROOT / folder).rglob("*.*")
        for path in sorted(path for path in found if path.suffix in (".py", ".c", ".h")):
            seen.update(path.relative_to(ROOT).as_posix().encode() + b"\0")
            seen.update(path.read_bytes())
    return FOLDER / seen.hexdigest()[:20]


def files(folder: Path) -> dict[str, Path]:
    """Module name -> extension."""
    found = {}
    for path in folder.rglob(f"*{SUFFIX}"):
        inside = path.relative_to(folder).as_posix().removesuffix(SUFFIX)
        found[inside.replace("/", ".")] = path
    return found


class _Finder(MetaPathFinder):
    """Before Python's own, which would take the source."""

    def __init__(self, found: dict[str, Path]) -> None:
        self._found = found

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._found.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)


def is_used() -> bool:
    """Whether this process runs machine code."""
    return any(isinstance(finder, _Finder) for finder in sys.meta_path)


def use() -> None:
    """Take machine code from now on, if there is some. What is imported already stays."""
    if is_used() or os.environ.get(SWITCH) == "0":
        return
    found = files(_sent() if ROOT.is_file() else place()) if _may_be_there() else {}
    shared = next((name for name in found if name.endswith("__mypyc")), None)
    if shared is None:
        return
    finder = _Finder(found)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(shared)
    except ImportError:
        # Made for another machine, say one with a newer C library.
        sys.meta_path.remove(finder)


def _may_be_there() -> bool:
    return ROOT.is_file() or FOLDER.is_dir()


def _sent() -> Path:
    """An executor elsewhere has all of ours as one zip, from which no machine code can be loaded:
    what the driver put into it lies beside it then."""
    place = ROOT.with_name("understudy-compiled")
    if not place.is_dir():
        with tempfile.TemporaryDirectory(dir=ROOT.parent) as name:
            with zipfile.ZipFile(ROOT) as sent:
                inside = [member for member in sent.namelist() if member.startswith(SENT)]
                sent.extractall(name, inside)
            # Another worker may have been quicker.
            with contextlib.suppress(OSError):
                (Path(name) / SENT).rename(place)
    return place
