"""Compiles the engine where it is missing, and loads its C functions alone."""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from spark_runner.native import c_functions, loader

# Another build of those functions, say one with sanitizers.
NATIVE = "UNDERSTUDY_NATIVE"


@functools.cache
def made() -> Path:
    """Where it is."""
    done = subprocess.run(
        [sys.executable, "-m", "spark_runner.native.build"],
        cwd=loader.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return loader.directory()


@functools.cache
def c_module_alone() -> ModuleType:
    """The functions in C, which a process that runs the sources does not take."""
    file = os.environ.get(NATIVE) or loader.files(made())[loader.C_MODULE]
    spec = importlib.util.spec_from_file_location(loader.C_MODULE, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    c_functions.pass_addresses(module)
    return module
