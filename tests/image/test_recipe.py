"""What the recipe's reader makes of a Dockerfile."""

from __future__ import annotations

import pytest

from tests.image.clean_root import ROOT
from tests.image.recipe import Copy, Run, stages_of

TEXT = """
# a comment
ARG BASE=python:3.11-slim-trixie
FROM ${BASE} AS first
WORKDIR /app
ENV A=1 B="two words"
# between
RUN one \\
    # inside a command
    && two
COPY x y ./
FROM base
USER somebody
COPY --from=first --chown=somebody:somebody /app/made made
RUN three
ENTRYPOINT ["tini"]
"""


def test_steps_know_the_folder_the_user_and_the_variables_in_force() -> None:
    first, last = stages_of(TEXT)
    variables = (("A", "1"), ("B", "two words"))
    run, copy = first.steps
    assert isinstance(run, Run)
    assert run.command.split() == ["one", "&&", "two"]
    assert (run.directory, run.user, run.environment) == ("/app", "root", variables)
    assert copy == Copy(("x", "y"), "/app")
    assert (first.base, first.name) == ("python:3.11-slim-trixie", "first")
    assert last.steps == [
        Copy(("/app/made",), "/made", "first", "somebody:somebody"),
        Run("three", "/", "somebody", ()),
    ]


def test_an_instruction_that_nothing_carries_out_is_refused() -> None:
    with pytest.raises(ValueError, match="ONBUILD"):
        stages_of("FROM a\nONBUILD RUN b")


def test_the_recipe_of_the_project_is_understood() -> None:
    compiled, image = stages_of((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert compiled.base == image.base
    assert image.user == "understudy"
    assert any(isinstance(step, Copy) and step.stage == compiled.name for step in image.steps)
