"""Pictures of every page of a running demo from a real Chromium: both themes, and a phone's width.

Pages are found as a person finds them: by the links of the menu and by the tabs of what they open.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as Unseen
from playwright.sync_api import TimeoutError as Late

from controlplane.demo.errors import DemoError
from mirrors.rest_client import RestClient

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# Name, theme, width and height.
LOOKS = (
    ("light", "light", 1440, 900),
    ("dark", "dark", 1440, 900),
    ("phone", "light", 390, 844),
)
# What the README shows, and where: the first screen, and a failover that was simulated.
README = {"overview": "overview.png", "simulation": "simulation.png"}
SETTLE_S = 90.0
_FLOW = "primary->backup"
_ENDED = {"succeeded", "failed", "aborted"}
_TIMEOUT_MS = 20_000
_CHARTS_MS = 8_000


@dataclasses.dataclass(frozen=True)
class Facts:
    """Where a demo answers, and how to sign in."""

    url: str
    username: str
    password: str
    token: str

    @classmethod
    def of(cls, known: dict[str, Any]) -> Facts:
        return cls(*(str(known[name]) for name in ("url", "username", "password", "token")))


def take_pictures(
    facts: Facts, directory: Path, readme: Path | None, chromium: Path = CHROMIUM
) -> list[Path]:
    """Take all pages in all themes and sizes; return the paths of the files."""
    if not chromium.exists():
        raise DemoError(
            f"{chromium} is not there: run `make system`, or name another Chromium.",
            code="chromium_missing",
        )
    special = _play(RestClient(facts.url, facts.token, program="understudy-demo"))
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        pages: dict[str, str] = {}
        for look, theme, width, height in LOOKS:
            with _visit(browser, facts, theme, (width, height)) as page:
                pages = pages or _pages(page, special)
                for name, path in pages.items():
                    written.append(_take(page, path, directory / f"{name}-{look}.png"))
                    if readme is not None and look == "light" and name in README:
                        readme.mkdir(parents=True, exist_ok=True)
                        (readme / README[name]).write_bytes(written[-1].read_bytes())
        browser.close()
    return written


def _play(api: RestClient) -> dict[str, str]:
    """Have something to show: a simulation and a comparison that have ended, with their pages."""
    flow = next(row for row in api.get("flows/")["results"] if row["name"] == _FLOW)
    made = {
        "simulation": ("failovers", {"flow": flow["id"], "kind": "simulation"}),
        "comparison": ("comparisons", {"flow": flow["id"], "seconds": 30}),
    }
    found = {"flow": f"/flows/{flow['id']}/"}
    for name, (path, body) in made.items():
        run = api.post(f"{path}/", body)
        until = time.monotonic() + SETTLE_S
        while api.get(f"{path}/{run['id']}/")["state"] not in _ENDED:
            if time.monotonic() > until:
                raise DemoError(f"The {name} did not end within {SETTLE_S:.0f} s.")
            time.sleep(0.5)
        found[name] = f"/{path}/{run['id']}/"
    return found


@contextlib.contextmanager
def _visit(browser: Browser, facts: Facts, theme: Any, size: tuple[int, int]) -> Iterator[Page]:
    context = browser.new_context(
        base_url=facts.url,
        color_scheme=theme,
        reduced_motion="reduce",
        viewport={"width": size[0], "height": size[1]},
    )
    context.set_default_timeout(_TIMEOUT_MS)
    page = context.new_page()
    page.goto("/login/")
    page.fill("#id_username", facts.username)
    page.fill("#id_password", facts.password)
    page.click("button.primary")
    page.wait_for_url("**/")
    yield page
    context.close()


def _pages(page: Page, special: dict[str, str]) -> dict[str, str]:
    """Name and address of each page: the menu's, and the tabs of those that have some."""
    found = {"overview": "/", **special}
    page.goto("/")
    for path in _links(page, "header.side nav a, header.side a"):
        found.setdefault(_name(path), path)
    for name in list(found):
        page.goto(found[name])
        for path in _links(page, "nav.tabs a"):
            if path not in found.values():
                found[f"{name}-{path.strip('/').rpartition('/')[2]}"] = path
    return found


def _links(page: Page, selector: str) -> list[str]:
    """Addresses of pages; one with a file's suffix is a download."""
    links = page.locator(selector).evaluate_all("links => links.map(a => a.getAttribute('href'))")
    return list(dict.fromkeys(path for path in links if path and is_page(path)))


def is_page(path: str) -> bool:
    return path.startswith("/") and not PurePosixPath(urlsplit(path).path).suffix


def _name(path: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", path.strip("/").lower()) or "overview"


def _take(page: Page, path: str, file: Path) -> Path:
    try:
        page.goto(path, wait_until="load")
        page.wait_for_selector("main h1")
    except Unseen as error:
        words = error.message.splitlines()[0]
        raise DemoError(f"{path} could not be pictured: {words}", code="not_pictured") from error
    # Charts draw themselves after the page: none may be left that still waits.
    with contextlib.suppress(Late):
        page.wait_for_function(
            "() => [...document.querySelectorAll('[data-figure]')]"
            ".every(place => place.querySelector('.main-svg'))",
            timeout=_CHARTS_MS,
        )
    page.screenshot(path=file)
    return file
