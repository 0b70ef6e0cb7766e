"""The compiled engine: built, found, and never used for other sources than its own."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_runner.native import loader
from spark_runner.spark import context
from tests import machine_code

pytestmark = pytest.mark.timeout(900)
ASK = (
    "import spark_runner.engine.batches.header_scan as scan;"
    "import spark_runner.kafka_protocol.connection as source;"
    "print(scan.__file__); print(source.__file__)"
)


@pytest.fixture(scope="module")
def made() -> Path:
    return machine_code.made()


def _imported(path: Path, **variables: str) -> tuple[str, str]:
    environment = {key: value for key, value in os.environ.items() if key != loader.SWITCH}
    done = subprocess.run(
        [sys.executable, "-c", ASK],
        cwd="/",
        env={**environment, "PYTHONPATH": str(path), **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    scan, source = done.stdout.splitlines()
    return scan, source


def test_every_named_module_has_machine_code(made: Path) -> None:
    assert {*loader.MODULES, loader.C_MODULE} <= set(loader.files(made))


def test_a_new_process_takes_the_machine_code_and_for_the_rest_the_source(made: Path) -> None:
    scan, source = _imported(loader.ROOT)
    assert Path(scan).parent == made / "spark_runner" / "engine" / "batches"
    assert source.endswith("/spark_runner/kafka_protocol/connection.py")


def test_a_switch_says_that_the_sources_run(made: Path) -> None:
    scan, _ = _imported(loader.ROOT, **{loader.SWITCH: "0"})
    assert scan == str(loader.ROOT / "spark_runner" / "engine" / "batches" / "header_scan.py")


def test_the_tests_themselves_run_the_sources(made: Path) -> None:
    assert not loader.is_used()


def test_what_goes_to_executors_has_it_along(made: Path, tmp_path: Path) -> None:
    sent = context._zipped_package(tmp_path)
    scan, source = _imported(sent)
    assert scan.startswith(str(tmp_path / "understudy-compiled"))
    assert source == f"{sent}/spark_runner/kafka_protocol/connection.py"
    again, _ = _imported(sent)
    assert again == scan


def test_machine_code_of_another_machine_is_left_alone(made: Path, tmp_path: Path) -> None:
    sent = context._zipped_package(tmp_path)
    _imported(sent)
    for file in (tmp_path / "understudy-compiled").glob(f"*{loader.SUFFIX}"):
        file.write_bytes(b"no such library")
    scan, _ = _imported(sent)
    assert scan == f"{sent}/spark_runner/engine/batches/header_scan.py"


@pytest.mark.parametrize("name", ["specs.py", "native.c"])
def test_a_changed_source_belongs_to_another_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for folder in loader.SOURCES:
        (tmp_path / folder).mkdir(parents=True)
    source = tmp_path / loader.SOURCES[1] / name
    source.write_text("A = 1\n")
    monkeypatch.setattr(loader, "ROOT", tmp_path)
    first = loader.directory()
    assert loader.directory() == first
    source.write_text("A = 2\n")
    assert loader.directory() != first


def test_without_a_compiler_it_says_so_and_what_that_means(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from spark_runner.native import build, loader\n"
        f"loader.FOLDER = pathlib.Path({str(tmp_path)!r}); sys.exit(build.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=loader.ROOT,
        env={**os.environ, "CC": "no-such-compiler"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "there is no C compiler (no-such-compiler)" in done.stdout
    assert "make compiled" in done.stdout
    assert "Traceback" not in done.stderr


def test_the_laws_of_batches_hold_in_machine_code_too(made: Path) -> None:
    """This process runs the sources, so what the machine code makes of damage is seen here only."""
    files = ("test_corrupt_batches.py", "test_repack_laws.py", "test_batches_and_guards.py")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        + [f"tests/wire/{name}" for name in files],
        cwd=loader.ROOT,
        env={**os.environ, loader.SWITCH: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.mark.parametrize("name", loader.MODULES)
def test_a_name_stands_for_one_kind_of_error_in_a_function(name: str) -> None:
    """mypyc gives a handler's name one type for all of a function: a second one is a TypeError."""
    source = (loader.ROOT / f"{name.replace('.', '/')}.py").read_text()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef):
            continue
        kinds: dict[str, set[str]] = {}
        for handler in ast.walk(function):
            if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type:
                kinds.setdefault(handler.name, set()).add(ast.unparse(handler.type))
        twice = {kept: found for kept, found in kinds.items() if len(found) > 1}
        assert not twice, f"{function.name} in {name}"
