"""The control plane's own REST API, as any program would use it."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from controlplane.demo.errors import DemoError

_TIMEOUT = 15.0


class Api:
    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/api/v1/"
        self._token = token

    def rows(self, path: str) -> Iterator[dict[str, Any]]:
        """Every row of a list, page after page."""
        address: str | None = f"{self._url}{path}?page_size=500"
        while address:
            page = self._ask(address)
            yield from page["results"]
            address = page["next"]

    def get(self, path: str) -> dict[str, Any]:
        return self._ask(f"{self._url}{path}")

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self._ask(f"{self._url}{path}", json.dumps(body).encode())

    def _ask(self, address: str, body: bytes | None = None) -> dict[str, Any]:
        request = urllib.request.Request(  # noqa: S310 (our own address)
            address,
            data=body,
            headers={
                "Authorization": f"Token {self._token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            path = urllib.parse.urlsplit(address).path
            raise DemoError(
                f"The web answered {error.code} at {path}: {_message_of(error)}", code="web_refused"
            ) from error
        except (OSError, ValueError) as error:
            raise DemoError(f"The web does not answer: {error}.", code="web_away") from error


def _message_of(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return error.reason
