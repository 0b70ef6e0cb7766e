"""`python -m spark_runner.native.build` compiles the hot modules of the engine.

Needs mypy, setuptools and a C compiler with Python's headers, only for building. Takes one or two
minutes. Exit codes: 0 compiled, or already compiled; 1 not compiled, with the reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import io
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from mirrors.kafka.security import librdkafka_egress
from spark_runner.native import loader

_CONFIG = "[mypy]\nfollow_imports = silent\nignore_missing_imports = True\n"
_TIMEOUT_S = 1800
_SHOWN = 2000


def main() -> int:
    if failed := librdkafka_egress.build():
        _print(f"The egress rules of librdkafka are not compiled: {failed}", 0)
    directory = loader.directory()
    if loader.files(directory):
        return _print("The engine is compiled already.", 0)
    missing = _missing()
    if missing:
        return _print(f"Not compiled, since {missing}; {loader.NOT_COMPILED}.", 1)
    loader.FOLDER.mkdir(parents=True, exist_ok=True)
    with (loader.FOLDER / "lock").open("w") as lock:
        # A second process waits for the first one and finds its result.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not loader.files(directory):
            failed = _make(directory)
            if failed:
                return _print(f"Not compiled: {failed}\n{loader.NOT_COMPILED.capitalize()}.", 1)
    return _print(f"The engine is compiled: {len(loader.files(directory))} extensions.", 0)


def _make(directory: Path) -> str:
    """Compile everything or nothing. Returns the error."""
    _print(f"Compiling {len(loader.MODULES)} modules of the engine, a minute or two ...", 0)
    for other in loader.FOLDER.iterdir():
        if other.is_dir():
            # Compiled from older sources, or left by a killed process.
            shutil.rmtree(other, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=loader.FOLDER) as name:
        failed = _build(Path(name))
        if not failed and loader.directory() != directory:
            failed = "the sources were changed meanwhile. Try again."
        if not failed:
            (Path(name) / "lib").rename(directory)
    return failed


def _missing() -> str:
    """What is missing for a build, as a sentence; empty if nothing is."""
    for package in ("mypyc", "setuptools"):
        if not importlib.util.find_spec(package):
            return f"the Python package {package} is not installed"
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        return f"there is no C compiler ({compiler})"
    if not (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return "the headers of this Python (Python.h) are not installed"
    return ""


def _build(folder: Path) -> str:
    """Build in a separate process, because setuptools changes its process. Returns the error."""
    (folder / "mypy.ini").write_text(_CONFIG)
    command = [sys.executable, "-m", "spark_runner.native.build", str(folder)]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            cwd=loader.ROOT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it was not done after {_TIMEOUT_S} s."
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-_SHOWN:]


def _extensions(folder: Path) -> None:
    """Runs in the separate process: compile the sources into `folder/lib`."""
    from mypyc.build import mypycify  # noqa: PLC0415 - only building has it
    from setuptools import Extension, setup  # noqa: PLC0415

    paths = [f"{name.replace('.', '/')}.py" for name in loader.MODULES]
    arguments = [f"--config-file={folder / 'mypy.ini'}", f"--cache-dir={folder / 'cache'}", *paths]
    made = mypycify(arguments, opt_level="3", debug_level="0", target_dir=str(folder / "c"))
    sources = sorted(str(path) for path in Path("spark_runner/c").glob("*.c"))
    strictly = ["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"]
    by_hand = Extension(loader.C_MODULE, sources, extra_compile_args=strictly)
    options = ["--build-lib", str(folder / "lib"), "--build-temp", str(folder / "objects")]
    with contextlib.redirect_stdout(io.StringIO()):
        setup(
            name="engine",
            packages=[],
            py_modules=[],
            ext_modules=[*made, by_hand],
            script_args=["build_ext", *options],
        )


def _print(words: str, code: int) -> int:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()
    return code


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _extensions(Path(sys.argv[1]))
    else:
        sys.exit(main())
