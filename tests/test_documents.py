"""Links of documents lead somewhere: pages, headings, code, commands; every page is linked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from tests.test_architecture import tracked

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"```.*?```", re.DOTALL)
# Names of code in a document: below `mirrors` unless a program comes first.
_NAME = re.compile(
    r"`((?:services|domain|kafka|models|mirrors|spark_runner|monitoring)[./][\w./]*)`"
)
_PROGRAMS = ("controlplane", "mirrors", "monitoring", "spark_runner", "tests", "docs", "templates")


PAGES = tracked("*.md", "docs/**/*.md", "tests/**/*.md")
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def _links(page: Path) -> list[str]:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return [to for to in _LINK.findall(text) if not re.match(r"[a-z]+:", to)]


def _anchors(page: Path) -> set[str]:
    """Of its headings, as they are made on the pages that render them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@each_page
def test_every_link_leads_to_a_page_and_to_a_heading_of_it(page: Path) -> None:
    broken = []
    for to in _links(page):
        path, _, heading = to.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (heading and heading not in _anchors(target)):
            broken.append(to)
    assert broken == []


def test_whoever_follows_the_links_of_the_first_page_comes_to_all_of_them() -> None:
    found, left = set(), {ROOT / "README.md"}
    while left:
        page = left.pop()
        found.add(page)
        for to in _links(page):
            target = (page.parent / to.partition("#")[0]).resolve()
            pages = set(target.glob("*.md")) if target.is_dir() else {target}
            left |= {one for one in pages if one.suffix == ".md" and one.exists()} - found
    documents = {page for page in PAGES if page.parent == ROOT or ROOT / "docs" in page.parents}
    assert documents - found == set()


def _is_there(name: str) -> bool:
    """A module or folder, or a name that stands in the module."""
    parts = name.removesuffix(".py").rstrip("/").replace(".", "/").split("/")
    if parts[0] not in _PROGRAMS:
        parts.insert(0, "mirrors")
    for at in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:at])
        if (module := path.with_suffix(".py")).exists():
            rest = parts[at:]
            return not rest or rest[0] in module.read_text(encoding="utf-8")
        if path.is_dir():
            return at == len(parts)
    return False


@pytest.mark.parametrize(
    "page",
    [
        "docs/architecture.md",
        "CONTRIBUTING.md",
        *(
            str(page.relative_to(ROOT))
            for page in PAGES
            if page.parent.name == "development" and page.stem != "tests"
        ),
    ],
)
def test_every_module_that_tells_of_the_code_names_is_there(page: str) -> None:
    names = _NAME.findall((ROOT / page).read_text(encoding="utf-8"))
    assert names
    assert [name for name in names if not _is_there(name)] == []


@each_page
def test_every_path_of_ours_and_every_command_is_there(page: Path) -> None:
    if page.name == "renames.md":  # its left column lists old paths
        return
    text = page.read_text(encoding="utf-8")
    paths = [
        path for path in re.findall(r"`([\w-]+/[\w./-]+)`", text) if path.split("/")[0] in _PROGRAMS
    ]
    # Tests are named from their folder on in the pages about MirrorMaker 2.
    missing = [p for p in paths if not (ROOT / p).exists() and not (ROOT / "tests" / p).exists()]
    commands = set(re.findall(r"manage\.py ([a-z]\w+)", text)) - set(get_commands())
    assert (missing, commands) == ([], set())


def test_every_test_that_the_threat_model_names_exists() -> None:
    text = (ROOT / "docs/threat-model.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) > 20
    for path, test in named:
        file = ROOT / path
        assert file.is_file(), path
        assert not test or f"def {test}(" in file.read_text(), f"{path}::{test}"
