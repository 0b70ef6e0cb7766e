"""Hooks of MkDocs (`make docs`): pages of the root folder, links to code, `llms.txt`."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Pages of the root folder, with their names in the site.
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CHANGELOG.md": "changelog.md",
}
_LINK = re.compile(r"(?P<text>!?\[[^\]]*\])\((?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")
# For people who read older commits, in a checkout.
_LEFT_OUT = ("renames.md",)
# A page of the site that lists what a folder has.
_INDEX = "README.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, name in ROOT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=_rewritten(text, PurePosixPath(source))))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    if page.file.src_uri in ROOT_PAGES.values():
        return markdown
    return _rewritten(markdown, PurePosixPath("docs", page.file.src_uri))


def on_post_build(config: MkDocsConfig) -> None:
    """`llms.txt`: each page with its title and first sentence (llmstxt.org)."""
    lines = [
        "# Understudy",
        "",
        "> Kafka replication between clusters that tests the failover.",
        "",
    ]
    for path in sorted((ROOT / "docs").rglob("*.md")):
        title, _, rest = path.read_text(encoding="utf-8").partition("\n")
        address = path.relative_to(ROOT / "docs").with_suffix("").as_posix().removesuffix("README")
        first = " ".join(rest.strip().partition("\n\n")[0].split())
        sentence = first.removeprefix("**Situation.** ").partition(". ")[0].rstrip(".")
        lines.append(f"- [{title.removeprefix('# ')}]({address.rstrip('/')}/): {sentence}.")
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _rewritten(text: str, source: PurePosixPath) -> str:
    """Links as the site needs them. What the site does not have is named, not linked."""

    def replace(match: re.Match[str]) -> str:
        path = match["path"]
        if "://" in path or path.startswith("mailto:"):
            return match[0]
        target = _target(_normal(source.parent / path))
        if target is None:
            return f"`{_normal(source.parent / path)}`"
        here = PurePosixPath(ROOT_PAGES.get(str(source), str(source).removeprefix("docs/")))
        up = "../" * len(here.parent.parts)
        return f"{match['text']}({up}{target}{match['anchor'] or ''})"

    return _LINK.sub(replace, text)


def _target(path: PurePosixPath) -> str | None:
    """Where the site has this file of the repository; None if it does not."""
    if (name := ROOT_PAGES.get(str(path))) is not None:
        return name
    if path.parts[:1] != ("docs",):
        return None
    inside = PurePosixPath(*path.parts[1:])
    if str(inside) in _LEFT_OUT:
        return None
    if (ROOT / path).is_dir():
        return str(inside / _INDEX) if (ROOT / path / _INDEX).exists() else None
    return str(inside)


def _normal(path: PurePosixPath) -> PurePosixPath:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return PurePosixPath(*parts)
