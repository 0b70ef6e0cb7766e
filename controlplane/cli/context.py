"""What every command has: the connection, whether to print JSON, and how it waits."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any
from urllib.parse import quote

import typer

from controlplane.cli import output
from controlplane.cli.connection import Access, Connection, demo_file, find_access
from controlplane.cli.exits import NOT_REACHED, CommandError

_PAUSE_S = 0.5


@dataclasses.dataclass
class Session:
    """Options before the command: `understudy --json flows list`."""

    url: str | None
    token: str | None
    json: bool
    _connection: Connection | None = None

    @property
    def api(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self.access())
        return self._connection

    def access(self) -> Access:
        """Raises CommandError when no address or no token is known."""
        found = find_access(self.url, self.token, os.environ, demo_file())
        if found.origin == "demo":
            output.say(f"The demo on this machine: {found.url}")
        return found

    def show_rows(
        self, columns: Sequence[output.Column], rows: Iterable[dict[str, Any]], empty: str
    ) -> None:
        if self.json:
            output.print_json(list(rows))
        else:
            output.print_table(columns, rows, empty, self.api.now)

    def show(self, row: Any, facts: Iterable[tuple[str, str]]) -> None:
        if self.json:
            output.print_json(row)
        else:
            output.print_facts(facts)

    def wait(
        self,
        path: str,
        ended: Collection[str],
        timeout: float,
        progress: Callable[[dict[str, Any]], str] = lambda row: str(row["state"]),
    ) -> dict[str, Any]:
        """Ask until `state` is one of `ended`; what changes meanwhile goes to the standard error.

        Raises CommandError after `timeout` seconds; the run itself continues.
        """
        until, last = time.monotonic() + timeout, ""
        while True:
            row: dict[str, Any] = self.api.get(path)
            if row["state"] in ended:
                return row
            if (now := progress(row)) != last:
                last = now
                output.say(now)
            if time.monotonic() > until:
                raise CommandError(
                    f"It has not ended after {timeout:g} s and still runs. Last state: {last}. "
                    f"Look at {self.api.access.url}/api/v1/{path}.",
                    NOT_REACHED,
                )
            time.sleep(_PAUSE_S)


def session(context: typer.Context) -> Session:
    found = context.find_object(Session)
    if found is None:
        raise RuntimeError("the command runs without the options of its parent")
    return found


def flow_path(flow: str, rest: str = "") -> str:
    """The address of a flow by id or name (`primary->backup`)."""
    return f"flows/{quote(flow, safe='')}/{rest}"
