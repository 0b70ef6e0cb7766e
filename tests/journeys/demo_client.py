"""Clients of the demo: REST, and its pages with their tables read cell by cell."""

from __future__ import annotations

import json
import re
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from typing import Any

from controlplane.demo.stack import DemoStack


class Rest:
    """GET without a body, POST with one, DELETE where it is said."""

    def __init__(self, stage: DemoStack) -> None:
        self._stage = stage

    def __call__(
        self, path: str, body: dict[str, Any] | None = None, *, method: str | None = None
    ) -> Any:
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self._stage.url}/api/v1/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={
                "Authorization": f"Token {self._stage.facts['token']}",
                "Content-Type": "application/json",
            },
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
            text = reply.read()
        return json.loads(text) if text else None


class Person:
    """Somebody who is signed in and reads pages."""

    def __init__(self, stage: DemoStack) -> None:
        self._url = stage.url
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        form = self.read("/login/")
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', form)
        assert token is not None
        body = urllib.parse.urlencode(
            {
                "csrfmiddlewaretoken": token[1],
                "username": stage.facts["username"],
                "password": stage.facts["password"],
            }
        )
        request = urllib.request.Request(  # noqa: S310 - our own server
            f"{self._url}/login/", data=body.encode(), headers={"Referer": f"{self._url}/login/"}
        )
        self._opener.open(request, timeout=30).close()

    def read(self, path: str) -> str:
        with self._opener.open(f"{self._url}{path}", timeout=30) as reply:
            return str(reply.read().decode())

    def table(self, path: str) -> list[dict[str, str]]:
        """Rows of the page's first table: heading -> what stands in the cell."""
        reader = _Table()
        reader.feed(self.read(path))
        headings, *rows = reader.rows
        return [dict(zip(headings, row, strict=True)) for row in rows if len(row) == len(headings)]


class _Table(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = self._over = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._over:
            return
        if tag == "tr":
            self.rows.append([])
        elif tag in {"td", "th"} and self.rows:
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in {"td", "th"}:
            self._inside = False
        elif tag == "table":
            self._over = True

    def handle_data(self, data: str) -> None:
        if self._inside and not self._over:
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data.strip()}".strip()


def figure(cell: str) -> int:
    """A count as a page shows it; what it does not know yet is less than any."""
    plain = cell.replace(",", "")
    return int(plain) if plain.isdecimal() else -1
