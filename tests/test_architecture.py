"""Architecture rules: sizes, layers, imports of other programs, forbidden dependencies."""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from tests.house.rules import PROGRAMS, importing

ROOT = Path(__file__).resolve().parent.parent


@functools.cache
def tracked(*patterns: str) -> list[Path]:
    """Files of the checkout that match, without what git ignores."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [ROOT / line for line in listing.stdout.splitlines()]
    return [path for path in paths if path.is_file()]


def production_modules() -> list[Path]:
    return [
        path
        for path in tracked("*.py")
        if path.relative_to(ROOT).parts[0] in PROGRAMS and "migrations" not in path.parts
    ]


def test_no_python_file_passes_600_lines_and_no_template_150() -> None:
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for pattern, limit in (("*.py", 600), ("*.html", 150))
        for path in tracked(pattern)
        if "migrations" not in path.parts
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > limit
    }
    assert long == {}


def _first_token(path: Path) -> tokenize.TokenInfo:
    """The first that is no comment. To parse the whole file takes a hundred times as long."""
    with path.open("rb") as file:
        return next(
            token
            for token in tokenize.tokenize(file.readline)
            if token.type not in (tokenize.ENCODING, tokenize.COMMENT, tokenize.NL)
        )


def test_every_module_says_in_its_first_line_what_it_is_for() -> None:
    silent = [
        path.relative_to(ROOT).as_posix()
        for path in [*production_modules(), *tracked("tests/*.py", "tests/**/*.py")]
        if (first := _first_token(path)).type != tokenize.ENDMARKER
        and not (first.type == tokenize.STRING and ast.literal_eval(first.string))
    ]
    assert silent == []


def test_only_the_doors_import_a_kafka_client() -> None:
    doors = re.compile(
        r"mirrors/kafka/|spark_runner/kafka_protocol/|spark_runner/engine/record_lane/"
        r"|spark_runner/planning/(planner|mm2_import)\.py|spark_runner/positions/"
        r"|controlplane/(demo|bench)/"
    )
    strangers = {name for name in importing("confluent_kafka", "kafka") if not doors.match(name)}
    assert strangers == set()


def test_one_client_of_the_rest_api_is_written() -> None:
    """Others wrap it. The benchmark of pages uses Django's test client."""
    paths = [path for path in production_modules() if "Token {" in path.read_text(encoding="utf-8")]
    names = {path.relative_to(ROOT).as_posix() for path in paths}
    assert names - {"controlplane/bench/scale/page_times.py"} == {"mirrors/rest_client.py"}


def test_only_the_runner_imports_pyspark_and_only_the_charts_import_plotly() -> None:
    assert {name for name in importing("pyspark") if not name.startswith("spark_runner/")} == set()
    assert set(importing("plotly")) <= {"monitoring/history/charts.py"}


def test_nothing_but_management_commands_imports_the_demo_or_the_benchmark() -> None:
    strangers = {
        name
        for name in importing("controlplane.demo", "controlplane.bench")
        if not name.startswith(
            ("controlplane/demo/", "controlplane/bench/", "controlplane/management/")
        )
    }
    assert strangers == set()


@pytest.mark.parametrize(
    "module",
    ["mirrors.domain.specs", "mirrors.kafka.admin.topics", "mirrors.launcher", "spark_runner.task"],
)
def test_the_data_plane_loads_without_django_and_a_task_without_the_spark_driver(
    module: str,
) -> None:
    code = (
        f"import {module}, sys; "
        "print([m for m in ('django', 'celery', 'rest_framework', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_the_layer_contracts_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_checks_of_go_find_a_file_that_is_not_formatted_and_say_when_there_is_no_go(
    tmp_path: Path,
) -> None:
    script = ["bash", ".ci/check-go", str(tmp_path)]

    def checked(**environment: str) -> tuple[int, str]:
        done = subprocess.run(
            script,
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=os.environ | environment,
        )
        return done.returncode, done.stderr.strip()

    folder = tmp_path / "no-go"
    folder.mkdir()
    (folder / "bash").symlink_to(str(shutil.which("bash")))
    skipped = f"There is no Go here; gofmt and go vet of {tmp_path} are skipped."
    assert checked(PATH=str(folder)) == (0, skipped)
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    (tmp_path / "a.go").write_text("package a\nvar  b = 1\n", encoding="utf-8")
    words = f"Run gofmt -w in {tmp_path}. Not formatted:\na.go"
    assert checked() == (1, words)


def test_no_registry_address_is_committed() -> None:
    files = tracked(
        "requirements*.txt",
        "pyproject.toml",
        "Makefile",
        ".ci/*",
        "Dockerfile",
        "docker-compose.yml",
    )
    found = {
        f"{path.name}: {line.strip()}"
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"index-url|find-links|https?://(?!127\.0\.0\.1|localhost)", line)
    }
    assert found == set()
    assert [path.name for path in tracked("uv.lock", "package-lock.json")] == []


def test_every_make_target_that_a_document_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))
    named = {
        (path.name, target)
        for path in tracked("*.md", "docs/*.md", "docs/**/*.md", "docker-compose.yml")
        for target in re.findall(r"`make ([a-z][a-z-]+)", path.read_text(encoding="utf-8"))
    }
    assert {pair for pair in named if pair[1] not in targets} == set()
