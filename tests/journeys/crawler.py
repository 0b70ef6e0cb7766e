"""A crawler: visits the running demo in a real Chromium and follows every link of every page.

Addresses of one kind (the same view, the same parts, the same filters) are the same page with
other rows: one of each is enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from axe_playwright_python.sync_playwright import Axe
from django.urls import Resolver404, resolve
from playwright.sync_api import Browser, BrowserContext, Page

TIMEOUT_MS = 20_000
GRAVE = {"serious", "critical"}
# What is another page of the same view; an identity is not.
PARTS = {"part", "kind", "form", "chart"}
TURNS = {"sort", "page"}
NOWHERE = "nowhere"
# Not the product's pages: Django's admin, and the address that signs out.
NOT_WALKED = ("/admin/", "/logout/")

LINKS = """() => [...document.querySelectorAll('a[href]')]
  .filter((a) => a.origin === location.origin).map((a) => a.pathname + a.search)"""

WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"

# What a person can press or must read, cut to what is seen of it, never lies on another such thing.
OVERLAPS = """() => {
  const cut = (box, around) => ({
    left: Math.max(box.left, around.left), right: Math.min(box.right, around.right),
    top: Math.max(box.top, around.top), bottom: Math.min(box.bottom, around.bottom),
  });
  const seen = (node) => {
    if (!node.checkVisibility({ visibilityProperty: true })) return [];
    let boxes = [...node.getClientRects()];
    for (let around = node.parentElement; around; around = around.parentElement) {
      if (getComputedStyle(around).overflowX === 'visible') continue;
      boxes = boxes.map((box) => cut(box, around.getBoundingClientRect()));
    }
    return boxes.filter((box) => box.right - box.left > 2 && box.bottom - box.top > 2);
  };
  const nodes = [...document.querySelectorAll(
    'a, button, input, select, textarea, summary, th, td, h1, h2, h3, dt, dd, p, li, .state')]
    .filter((node) => !node.closest('.visually-hidden, dialog:not([open])'))
    .filter((node) => !node.matches('.picture .way, .picture .state'))
    .map((node) => ({ node, boxes: seen(node) })).filter((one) => one.boxes.length);
  const words = (node) => `${node.nodeName} ${(node.textContent ?? '').trim().slice(0, 40)}`;
  const found = [];
  nodes.forEach((one, at) => {
    for (const two of nodes.slice(at + 1)) {
      if (one.node.contains(two.node) || two.node.contains(one.node)) continue;
      const both = one.boxes.some((a) => two.boxes.some((b) => {
        const common = cut(a, b);
        return common.right - common.left > 2 && common.bottom - common.top > 2;
      }));
      if (both) found.push(`${words(one.node)} lies on ${words(two.node)}`);
    }
  });
  return found.slice(0, 5);
}"""


def kind_of(address: str) -> tuple[str, ...] | None:
    """The view, its part and the names of its filters; None for other addresses."""
    split = urlsplit(address)
    if split.path.startswith(NOT_WALKED):
        return None
    try:
        found = resolve(split.path)
    except Resolver404:
        return (NOWHERE, split.path)
    parts = [str(value) for name, value in found.kwargs.items() if name in PARTS]
    filters = set(dict(parse_qsl(split.query)))
    # However it is sorted or turned over, a filtered table is the same page.
    return (found.url_name or "", *parts, *sorted(filters - TURNS or filters))


def is_file(address: str) -> bool:
    split = urlsplit(address)
    name = resolve(split.path).url_name or ""
    files = name.endswith(("-file", "-script")) or name in {"export-mm2", "schema", "flow-log"}
    return files or "as" in dict(parse_qsl(split.query))


class Walker:
    """Signed in, of one theme; keeps everything that is wrong, by the address where it was."""

    def __init__(
        self, browser: Browser, facts: dict[str, Any], theme: Literal["light", "dark"] = "light"
    ) -> None:
        self.context: BrowserContext = browser.new_context(
            base_url=facts["url"], color_scheme=theme, reduced_motion="reduce"
        )
        self.context.set_default_timeout(TIMEOUT_MS)
        self.page: Page = self.context.new_page()
        self.wrong: dict[str, list[str]] = {}
        self.page.on("pageerror", lambda error: self.note(str(error)))
        self.page.on(
            "console",
            lambda said: self.note(said.text) if said.type in {"error", "warning"} else None,
        )
        self.page.goto("/login/")
        self.page.fill("#id_username", facts["username"])
        self.page.fill("#id_password", facts["password"])
        self.page.click("button.primary")
        self.page.wait_for_url("**/")

    def note(self, words: str) -> None:
        split = urlsplit(self.page.url)
        at = f"{split.path}?{split.query}" if split.query else split.path
        self.wrong.setdefault(at, []).append(words[:300])

    def follow(self, *starts: str) -> tuple[list[str], list[str]]:
        """Addresses of pages and of files that links lead to, one of each kind."""
        taken: set[tuple[str, ...]] = set()
        pages: list[str] = []
        files: list[str] = []
        border = list(starts)
        while border:
            address = border.pop(0)
            kind = kind_of(address)
            if kind is None or kind in taken:
                continue
            taken.add(kind)
            if kind[0] == NOWHERE:
                self.note(f"a link leads nowhere: {address}")
            elif is_file(address):
                files.append(address)
            else:
                pages.append(address)
                border += self._links(address)
        return pages, files

    def _links(self, address: str) -> Iterator[str]:
        self.arrive(address)
        yield from dict.fromkeys(self.page.evaluate(LINKS))

    def arrive(self, address: str) -> None:
        answer = self.page.goto(address)
        if answer is None or answer.status != 200:
            self.note(f"{address} answers {answer and answer.status}")

    def look(self, width: int, *, axe: bool = True) -> None:
        """The page that is open, at one width: nothing lies on anything, all can be read."""
        self.page.set_viewport_size({"width": width, "height": 900})
        if (wider := self.page.evaluate(WIDER)) > 0:
            self.note(f"{width} px: scrolls sideways by {wider} px")
        for words in self.page.evaluate(OVERLAPS):
            self.note(f"{width} px: {words}")
        for rule in Axe().run(self.page).response["violations"] if axe else ():
            if rule["impact"] in GRAVE:
                self.note(f"{width} px: {rule['id']}: {rule['nodes'][0]['html'][:160]}")

    def download(self, address: str) -> str:
        """The body of a file; what does not come is noted."""
        answer = self.context.request.get(address)
        if answer.status != 200:
            self.wrong.setdefault(address, []).append(f"answers {answer.status}")
        return answer.text()
