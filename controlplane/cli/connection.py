"""The REST API as the commands use it: address, token, deadlines, pages, errors as sentences.

Where address and token come from, first match wins: options of the command line; the variables
UNDERSTUDY_URL and UNDERSTUDY_TOKEN or UNDERSTUDY_TOKEN_FILE; the file that `understudy login`
writes; a demo that runs on this machine.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from controlplane.cli.exits import NOT_ALLOWED, NOT_REACHED, USAGE, CommandError
from mirrors.installation import state_directory
from mirrors.rest_client import RestClient, RestError

URL, TOKEN, TOKEN_FILE = "UNDERSTUDY_URL", "UNDERSTUDY_TOKEN", "UNDERSTUDY_TOKEN_FILE"


@dataclasses.dataclass(frozen=True)
class Access:
    """Where the API is and who asks; `origin` says where both come from."""

    url: str
    token: str = dataclasses.field(repr=False)
    origin: str


def login_file(environ: Mapping[str, str]) -> Path:
    folder = environ.get("XDG_CONFIG_HOME")
    return (Path(folder) if folder else Path.home() / ".config") / "understudy" / "login.json"


def find_access(
    url: str | None, token: str | None, environ: Mapping[str, str], demo: Path
) -> Access:
    """Raises CommandError when no address or no token is known."""
    url = url or environ.get(URL)
    token = token or environ.get(TOKEN) or _token_of_file(environ)
    if url and token:
        return Access(url.rstrip("/"), token, "given")
    known = _read(login_file(environ))
    if known and (url is None or url.rstrip("/") == known["url"]):
        return Access(known["url"], token or known["token"], "login")
    running = _read(demo)
    if running and url is None:
        return Access(running["url"], token or running["token"], "demo")
    missing = "no address" if not url else f"no token for {url}"
    raise CommandError(
        f"There is {missing}. Run `understudy login ADDRESS`, or set {URL} and {TOKEN}, or start "
        "`understudy demo`.",
        USAGE,
    )


def save_login(url: str, token: str, environ: Mapping[str, str]) -> Path:
    """Write address and token; only the owner may read the file."""
    path = login_file(environ)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "w") as file:
        json.dump({"url": url.rstrip("/"), "token": token}, file)
    Path(temporary).replace(path)
    return path


def demo_file() -> Path:
    return state_directory() / ".demo" / "demo.json"


class Connection:
    """Requests to one Understudy. Every failure is a CommandError with an exit code."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._client = RestClient(access.url, access.token, program="understudy-cli")

    def now(self) -> datetime:
        """The time on the server, for the age of what it answers."""
        return self._client.now()

    def get(self, path: str, **params: Any) -> Any:
        with _exit_codes():
            return self._client.get(path, **params)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        with _exit_codes():
            return self._client.post(path, body)

    def rows(self, path: str, limit: int | None = None, **params: Any) -> Iterator[dict[str, Any]]:
        with _exit_codes():
            yield from self._client.rows(path, limit, **params)


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    try:
        yield
    except RestError as error:
        code = NOT_ALLOWED if error.status in (401, 403) else USAGE
        if error.status == 0 or error.status >= 500:
            code = NOT_REACHED
        raise CommandError(error.message, code) from error


def _token_of_file(environ: Mapping[str, str]) -> str | None:
    path = environ.get(TOKEN_FILE)
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise CommandError(
            f"{TOKEN_FILE} names {path}, which cannot be read: {reason}.", USAGE
        ) from error


def _read(path: Path) -> dict[str, str] | None:
    """Address and token in a JSON file, or None."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return {"url": str(known["url"]), "token": str(known["token"])}
    except (OSError, ValueError, KeyError, TypeError):
        return None
