"""The compiled modules of the engine, used only if they were built from the present sources.

`python -m spark_runner.native.build` compiles the hot modules with mypyc. `use()` makes Python
import the compiled modules instead of the sources; the packages of the engine call it first. A
module built from other sources, by another Python or for another machine is not used. Its source
runs instead, with the same result at a higher cost. UNDERSTUDY_COMPILED=0 disables compiled
modules.
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

from mirrors.installation import state_directory

ROOT = Path(__file__).resolve().parents[2]
FOLDER = state_directory() / ".compiled"
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
SWITCH = "UNDERSTUDY_COMPILED"
# Their folder in the zip for executors.
IN_ZIP = "compiled/"
# Sources from which compiled code may take a constant or a layout.
SOURCES = ("spark_runner", "mirrors/domain", "mirrors/kafka")
NOT_COMPILED = "the engine runs interpreted, which takes more CPU time: run `make compiled`"

# Not included: modules whose methods the search by seed replaces, so that it also runs against
# machine code; and modules that receive values from untyped libraries, because a wrong annotation
# is an error in machine code.
MODULES = (
    "spark_runner.engine.batches.header_scan",
    "spark_runner.engine.batches.merge",
    "spark_runner.engine.batches.record_bytes",
    "spark_runner.engine.batches.repack",
    "spark_runner.engine.commit_timing",
    "spark_runner.engine.copy_loop",
    "spark_runner.engine.flush",
    "spark_runner.engine.model.lane_counters",
    "spark_runner.engine.model.partition",
    "spark_runner.engine.model.partition_batches",
    "spark_runner.engine.model.partition_state",
    "spark_runner.engine.model.pending_batch",
    "spark_runner.engine.model.receive_buffers",
    "spark_runner.engine.model.skipped_batches",
    "spark_runner.engine.partition_stop",
    "spark_runner.engine.poller",
    "spark_runner.engine.source.leaders",
    "spark_runner.engine.source.reader",
    "spark_runner.engine.speed_meter",
    "spark_runner.engine.transforms.evaluation",
    "spark_runner.engine.transforms.record_fields",
    "spark_runner.engine.target.batch_preparation",
    "spark_runner.engine.target.in_flight",
    "spark_runner.engine.target.leaders",
    "spark_runner.engine.target.retries",
    "spark_runner.engine.target.transaction",
    "spark_runner.engine.target.writer",
    "spark_runner.kafka_protocol.batch_header",
    "spark_runner.kafka_protocol.compression",
    "spark_runner.kafka_protocol.crc32c_patch",
    "spark_runner.kafka_protocol.fetch",
    "spark_runner.kafka_protocol.produce",
    "spark_runner.kafka_protocol.records",
    "spark_runner.kafka_protocol.request_header",
    "spark_runner.kafka_protocol.tcp_stream",
    "spark_runner.kafka_protocol.tls_stream",
    "spark_runner.kafka_protocol.varint",
)
# Written in C. The Python modules work without these functions.
C_MODULE = "spark_runner.native.c_module"


def directory() -> Path:
    """The directory of the machine code for the present sources and this Python."""
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


class _CompiledModuleFinder(MetaPathFinder):
    """Placed before Python's own finders, which would use the source."""

    def __init__(self, found: dict[str, Path]) -> None:
        self._found = found

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        file = self._found.get(name)
        return None if file is None else importlib.util.spec_from_file_location(name, file)


def is_used() -> bool:
    """Whether this process runs machine code."""
    return any(isinstance(finder, _CompiledModuleFinder) for finder in sys.meta_path)


def use() -> None:
    """Use machine code from now on, if available. Imported modules do not change."""
    if is_used() or os.environ.get(SWITCH) == "0":
        return
    found = files(_unpacked() if ROOT.is_file() else directory()) if _may_exist() else {}
    shared = next((name for name in found if name.endswith("__mypyc")), None)
    if shared is None:
        return
    finder = _CompiledModuleFinder(found)
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module(shared)
    except ImportError:
        # Built for another machine, for example with a newer C library.
        sys.meta_path.remove(finder)


def _may_exist() -> bool:
    return ROOT.is_file() or FOLDER.is_dir()


def _unpacked() -> Path:
    """A remote executor has this program as a zip, from which machine code cannot be loaded. Unpack
    the machine code of the zip into a directory next to it."""
    directory = ROOT.with_name("understudy-compiled")
    if not directory.is_dir():
        with tempfile.TemporaryDirectory(dir=ROOT.parent) as name:
            with zipfile.ZipFile(ROOT) as sent:
                inside = [member for member in sent.namelist() if member.startswith(IN_ZIP)]
                sent.extractall(name, inside)
            # Another worker may have been faster.
            with contextlib.suppress(OSError):
                (Path(name) / IN_ZIP).rename(directory)
    return directory
