"""The options of the format `understudy`, checked before anything connects."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Literal

Table = Literal["records", "runs", "topics", "partitions", "groups", "gaps"]
Side = Literal["source", "target"]
TABLES = ("records", "runs", "topics", "partitions", "groups", "gaps")
SIDES = ("source", "target")
_KNOWN = (
    *("url", "token", "flow", "table", "side", "topics", "from", "to"),
    *("records_per_task", "runs"),
)
EARLIEST: Literal["earliest"] = "earliest"
LATEST: Literal["latest"] = "latest"
RECORDS_PER_TASK = 500_000
# A bound of a range: a word, milliseconds since the epoch, or offsets by topic and partition.
Bound = str | int | Mapping[str, Mapping[int, int]]


class InvalidOption(ValueError):
    """A sentence about one option."""


@dataclasses.dataclass(frozen=True)
class Options:
    url: str
    token: str = dataclasses.field(repr=False)
    flow: str
    table: Table
    side: Side
    # Java-like patterns, separated by commas; empty: every replicated topic.
    topics: str
    start: Bound
    end: Bound
    records_per_task: int
    # Whether records get the offset on the other side, which reads the offset runs.
    with_runs: bool


def read_options(given: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> Options:
    """Raises InvalidOption with what is wrong and what is possible."""
    unknown = sorted(name for name in given if name.lower() not in _KNOWN and name != "path")
    if unknown:
        raise InvalidOption(f"There is no option {unknown[0]!r}. Options: {', '.join(_KNOWN)}.")
    asked = {name.lower(): value for name, value in given.items()}
    url = asked.get("url") or environ.get("UNDERSTUDY_URL", "")
    token = asked.get("token") or environ.get("UNDERSTUDY_TOKEN", "")
    for name, value in (("url", url), ("token", token), ("flow", asked.get("flow", ""))):
        if not value:
            hint = "" if name == "flow" else f", or the variable UNDERSTUDY_{name.upper()},"
            raise InvalidOption(f"The option {name!r}{hint} is missing.")
    return Options(
        url=url,
        token=token,
        flow=asked["flow"],
        table=_one_of("table", asked.get("table", "records"), TABLES),  # type: ignore[arg-type]
        side=_one_of("side", asked.get("side", "source"), SIDES),  # type: ignore[arg-type]
        topics=asked.get("topics", ""),
        start=_bound("from", asked.get("from", EARLIEST)),
        end=_bound("to", asked.get("to", LATEST)),
        records_per_task=_positive("records_per_task", asked.get("records_per_task")),
        with_runs=_one_of("runs", asked.get("runs", "true").lower(), ("true", "false")) == "true",
    )


def _one_of(name: str, value: str, values: tuple[str, ...]) -> str:
    if value not in values:
        raise InvalidOption(f"{name} is {value!r}; it must be one of {', '.join(values)}.")
    return value


def _positive(name: str, value: str | None) -> int:
    if value is None:
        return RECORDS_PER_TASK
    if not value.isdecimal() or int(value) < 1:
        raise InvalidOption(f"{name} is {value!r}; it must be a whole number from 1 on.")
    return int(value)


def _bound(name: str, value: str) -> Bound:
    if value in (EARLIEST, LATEST):
        return value
    if value.startswith("{"):
        return offsets_of(value, name)
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidOption(
            f"{name} is {value!r}; it must be earliest, latest, a time such as "
            '2026-11-25T14:00:00Z, or offsets such as {"orders": {"0": 1200}}.'
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def offsets_of(text: str, name: str) -> Mapping[str, Mapping[int, int]]:
    """Offsets by topic and partition, from JSON."""
    try:
        read = json.loads(text)
        return {
            str(topic): {int(number): int(offset) for number, offset in rows.items()}
            for topic, rows in read.items()
        }
    except (ValueError, AttributeError, TypeError):
        raise InvalidOption(
            f"{name} is not JSON of offsets by topic and partition, such as "
            '{"orders": {"0": 12}}.'
        ) from None
