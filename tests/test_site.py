"""The site of the documentation is built without a broken link and has each page."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"renames.md"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # What is in no menu is found by nobody; `strict` does not refuse it.
    assert "not included in the" not in done.stderr
    return folder


def test_each_page_is_in_the_site_and_in_the_list_for_programs(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    for path in (ROOT / "docs").rglob("*.md"):
        name = path.relative_to(ROOT / "docs")
        address = name.parent if name.name == "README.md" else name.with_suffix("")
        if str(name) not in LEFT_OUT:
            assert (site / address / "index.html").exists()
            assert f"({address}/)" in listed


def test_a_page_loads_nothing_from_other_hosts(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    for tag in ('<script src="http', '<link rel="stylesheet" href="http', "fonts.googleapis"):
        assert tag not in page
