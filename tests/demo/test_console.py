"""Steps show progress and time, on a terminal and without one."""

from __future__ import annotations

import io
import re
import time

import pytest

from controlplane.demo.console import Console


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_without_a_terminal_each_step_has_a_line_at_its_start_and_its_end() -> None:
    stream = io.StringIO()
    console = Console(stream)
    with console.step("Redis") as step:
        step.note = "answers"
    with pytest.raises(ValueError, match="no"), console.step("Web"):
        raise ValueError("no")
    console.close()
    lines = [re.sub(r"\s+", " ", line).strip() for line in stream.getvalue().splitlines()]
    assert lines == ["Redis ...", "ok Redis: answers 0.0 s", "Web ...", "no Web 0.0 s"]
    assert "\x1b" not in stream.getvalue()


def test_on_a_terminal_what_is_under_way_is_shown_with_its_seconds() -> None:
    stream = Terminal()
    console = Console(stream)
    with console.step("Redis"), console.step("Web"):
        time.sleep(0.5)
    console.close()
    assert "\r\x1b[2K Redis (0 s), Web (0 s)" in stream.getvalue()
    assert "✔ Web" in stream.getvalue()
