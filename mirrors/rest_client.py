"""A client of Understudy's REST API, for programs outside of it: deadlines, pages, sentences."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

# Seconds: for each answer, and to connect. A list of 1,000 rows takes well below one.
_TIMEOUT_S, _CONNECT_S = 30.0, 5.0
_PAGE = 500


class RestError(Exception):
    """`message` is a sentence; `status` is the HTTP status, or 0 if nothing answered."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


class RestClient:
    """Requests to one Understudy, by paths below /api/v1/. Every failure is a RestError."""

    def __init__(
        self, url: str, token: str, *, program: str, timeout_s: float = _TIMEOUT_S
    ) -> None:
        self.url = url.rstrip("/")
        self._clock_ahead = timedelta()
        self._client = httpx.Client(
            base_url=f"{self.url}/api/v1/",
            headers={"Authorization": f"Token {token}", "User-Agent": program},
            timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S)),
        )

    def get(self, path: str, **params: Any) -> Any:
        return self._ask("GET", path, params=params)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self._ask("POST", path, body=body or {})

    def rows(self, path: str, limit: int | None = None, **params: Any) -> Iterator[dict[str, Any]]:
        """The rows of a list, page after page, at most `limit`."""
        page, seen = 1, 0
        size = min(_PAGE, limit or _PAGE)
        while True:
            answer = self._ask("GET", path, params={**params, "page": page, "page_size": size})
            # Some short lists have no pages.
            rows = answer if isinstance(answer, list) else answer["results"]
            for row in rows:
                if seen == limit:
                    return
                seen += 1
                yield row
            if isinstance(answer, list) or not answer.get("next"):
                return
            page += 1

    def now(self) -> datetime:
        """The server's time, by the last answer: this machine's clock may be wrong.

        At most a second late and never early: an age by it is not too young.
        """
        return datetime.now(UTC) + self._clock_ahead

    def _ask(
        self,
        method: str,
        path: str,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        sent = {key: value for key, value in (params or {}).items() if value is not None}
        try:
            answer = self._client.request(method, path, params=sent, json=body)
        except httpx.TimeoutException as error:
            unknown = "" if method == "GET" else " What was asked may still happen: check it."
            raise RestError(f"{self.url} did not answer in time.{unknown}", 0) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise RestError(
                f"{self.url} cannot be reached: {error}. Check the address.", 0
            ) from error
        with contextlib.suppress(KeyError, ValueError):
            # The header has whole seconds, rounded down.
            latest = parsedate_to_datetime(answer.headers["Date"]) + timedelta(seconds=1)
            self._clock_ahead = latest - datetime.now(UTC)
        if not answer.is_success:
            raise RestError(_sentence(answer, self.url), answer.status_code)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise RestError(
                f"{self.url} did not answer with JSON. Is it the address of Understudy?", 0
            ) from error


def _sentence(answer: httpx.Response, url: str) -> str:
    """What the API says of an error, field by field where it does."""
    try:
        error = answer.json()["error"]
        message = str(error["message"])
    except (ValueError, KeyError, TypeError):
        return f"{url} answered {answer.status_code} without a reason. Is it Understudy's address?"
    fields = error.get("fields")
    if isinstance(fields, dict):
        for name, sentences in fields.items():
            message += f"\n  {name}: {' '.join(map(str, sentences))}"
    return message
