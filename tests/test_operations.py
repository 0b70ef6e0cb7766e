"""The tables of docs/operations agree with the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from mirrors import launcher
from mirrors.domain.runners.job_files import TopicState
from mirrors.domain.states.flows import OBSERVED

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "operations"
PAGE = "\n".join(path.read_text(encoding="utf-8") for path in sorted(FOLDER.rglob("*.md")))
PROGRAMS = ("controlplane", "mirrors", "monitoring", "spark_runner")
_NAME = re.compile(
    r"""["'](UNDERSTUDY_[A-Z_]+|OTEL_[A-Z_]*[A-Z]|DATABASE_URL|REDIS_URL|XDG_CACHE_HOME|JAVA_HOME)["']"""
)
# The environment variables of a hook's command; docs/failover-hooks.md has them.
TOLD = {f"UNDERSTUDY_{word}" for word in ("RUN", "KIND", "FLOW", "SOURCE", "TARGET")}
# The demo's and the benchmark's own.
_NOT_FOR_OPERATORS = {
    "UNDERSTUDY_DEMO_MARK",
    "UNDERSTUDY_BENCH_LOCK",
    # In the table as a value that may also come from a file.
    "UNDERSTUDY_TOKEN_FILE",
    "UNDERSTUDY_SECRET_KEY_FILE",
    *TOLD,
}


def variables_of_the_programs() -> set[str]:
    """Every environment variable that a service reads, the Makefile's bind address among them."""
    found = {"UNDERSTUDY_BIND"}
    for program in PROGRAMS:
        for path in (ROOT / program).rglob("*.py"):
            found |= set(_NAME.findall(path.read_text(encoding="utf-8")))
    return found - _NOT_FOR_OPERATORS


def first_column(heading: str) -> list[str]:
    """Of the table whose header begins so, under `heading`."""
    rows = PAGE.partition(heading)[2].partition("|---")[2].partition("\n\n")[0].splitlines()[1:]
    return [row.split(" | ")[0].removeprefix("| ").strip("` …") for row in rows]


def test_every_environment_variable_is_in_the_table_once() -> None:
    assert sorted(first_column("# Environment variables")) == sorted(variables_of_the_programs())


def test_what_a_hook_is_told_is_in_the_page_of_failovers() -> None:
    page = (ROOT / "docs" / "failover-hooks.md").read_text(encoding="utf-8")
    assert {name for name in TOLD if f"`{name}`" not in page} == set()


def test_every_exit_code_is_in_the_table() -> None:
    codes = {value for name, value in vars(launcher).items() if name.startswith("EXIT_")}
    assert {int(code) for code in first_column("**Exit codes of the runner**")} == codes


def test_every_state_is_in_its_table() -> None:
    assert set(first_column("Of a flow:")) == set(OBSERVED.names)
    assert set(first_column("Of a topic and a partition:")) == set(get_args(TopicState))


def test_the_make_targets_that_it_names_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for words in re.findall(r"(?:`|^)make ([a-z -]+)(?:`|$)", PAGE, re.MULTILINE):
        assert set(words.split()) <= targets, words


def test_the_programs_say_the_sentences_of_the_table_of_troubles() -> None:
    paths = [path for program in PROGRAMS for path in (ROOT / program).rglob("*.py")]
    said = "".join(path.read_text(encoding="utf-8") for path in paths)
    # A sentence that two lines of code share is one to a person.
    said = re.sub(r'"\s*\n\s*f?"', "", said)
    missing = [words for words in first_column("## Trouble") if words not in said]
    assert not missing
