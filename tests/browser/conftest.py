"""A real Chromium against a live server, signed in, with everything its console said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from playwright.sync_api import Browser, Page, expect, sync_playwright

from controlplane.celery import app
from mirrors.models import Flow, Role
from mirrors.services.users import ensure_person
from tests.drill_runs import drill_rows
from tests.failback_rows import fenced, going_back
from tests.pages import world
from tests.pages.full import lately

# Chromium without windows, tabs and their own pages: a quarter less processor time.
HEADLESS_SHELL = "/usr/lib/chromium/chromium-headless-shell"
CHROMIUM = os.environ.get("UNDERSTUDY_CHROMIUM") or (
    HEADLESS_SHELL if Path(HEADLESS_SHELL).exists() else "/usr/bin/chromium"
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Each page runs its scripts once: to optimize them costs a quarter more than it gives.
    "--js-flags=--no-opt --no-maglev --always-sparkplug",
]
PASSWORD = "correct horse battery 9"
# Playwright's own event loop runs in the test's thread; the ORM calls beside it are still serial.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
# What comes, comes at once on a machine that does nothing else.
expect.set_options(timeout=15_000)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if not Path(CHROMIUM).exists():
        pytest.fail(f"{CHROMIUM} is not there: run `make system`, or set UNDERSTUDY_CHROMIUM.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def silent_queue() -> Iterator[None]:
    before = app.conf.broker_url
    app.conf.broker_url = "memory://"
    yield
    app.conf.broker_url = before


@pytest.fixture
def person(transactional_db: None) -> str:
    # A flush between tests takes the groups that a migration made.
    for role in Role:
        if role is not Role.NONE:
            Group.objects.get_or_create(name=role.word)
    return ensure_person(username="admin", password=PASSWORD, role=Role.ADMIN).username


@pytest.fixture
def flow(person: str) -> Flow:
    made = world.busy()
    drill_rows(made)
    going_back(made)
    world.gap(made, pk=made.pk)
    lately(made)
    fenced(made)
    world.topic_preview(made, pk=made.pk)
    world.rule_preview(made, pk=made.pk)
    world.application_run(made)
    world.costs(made)
    world.topic_configs(made)
    return made


class Visitor:
    """A page of a browser, with what its console complained of."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        # Colours between two themes are no one's design: without motion a check never meets them.
        options = {
            "viewport": {"width": 1600, "height": 1000},
            "reduced_motion": "reduce",
            **options,
        }
        self.address = address
        self.context = browser.new_context(base_url=address, **options)
        self.context.set_default_timeout(20_000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console",
            lambda said: (
                self.complaints.append(said.text) if said.type in {"error", "warning"} else None
            ),
        )

    def arrive(self, name: str) -> None:
        """Signed in already, as somebody is who comes back."""
        known = Client()
        known.force_login(
            User.objects.get(username=name), backend="django.contrib.auth.backends.ModelBackend"
        )
        name = settings.SESSION_COOKIE_NAME
        cookie = {"name": name, "value": known.cookies[name].value, "url": self.address}
        self.context.add_cookies([cookie])
        self.page.goto("/")

    def sign_in(self, name: str) -> Page:
        self.page.goto("/login/")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", PASSWORD)
        self.page.click("button.primary")
        self.page.wait_for_url("**/")
        return self.page


@pytest.fixture
def visit(chromium: Browser, live_server: Any, person: str) -> Iterator[Any]:
    """Call it with browser options for a signed-in visitor; `by_form`: who has just signed in."""
    visitors: list[Visitor] = []

    def come(*, by_form: bool = False, **options: Any) -> Visitor:
        visitor = Visitor(chromium, live_server.url, **options)
        visitors.append(visitor)
        (visitor.sign_in if by_form else visitor.arrive)(person)
        return visitor

    yield come
    for visitor in visitors:
        visitor.context.close()
