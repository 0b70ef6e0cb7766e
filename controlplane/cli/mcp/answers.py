"""Answers of tools: the body of a REST answer as compact JSON, below a limit of characters.

An answer has what the REST API gave, and:

- `cut`: what is left out, a sentence each; absent if nothing is.
- `server_time`: the time on the server (ISO 8601), for the age of each `as_of`.
- of a list: `count` rows in all, the `page`, its `rows`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

MOST_CHARACTERS = 40_000
# Room for the sentences about what is left out.
_ROOM = 1_000
# A shorter text is never cut: names and sentences stay whole.
_LEAST_TEXT = 1_000


@dataclasses.dataclass
class _Part:
    """A list or a text in an answer that may be shortened: `holder[key]`."""

    at: str
    holder: Any
    key: Any
    size: int


def list_answer(
    body: Any, *, page: int, limit: int, fields: Sequence[str], now: datetime
) -> dict[str, Any]:
    """A page of a list; `fields` of each row, or all."""
    rows, count = body["results"], body["count"]
    if fields:
        rows = [{name: row[name] for name in fields if name in row} for row in rows]
    cut = []
    first = (page - 1) * limit + 1
    if body["next"]:
        last = first + len(rows) - 1
        cut = [f"This page has rows {first:,} to {last:,} of {count:,}; page {page + 1} follows."]
    stated = {"cut": cut} if cut else {}
    return {**stated, "server_time": now.isoformat(), "count": count, "page": page, "rows": rows}


def object_answer(body: Any, *, now: datetime) -> dict[str, Any]:
    return {"server_time": now.isoformat(), "answer": body}


def text_of(answer: dict[str, Any], most: int = MOST_CHARACTERS) -> str:
    """The answer as JSON of at most `most` characters.

    The largest lists lose entries at their end, then long texts, until it fits. `cut` says so.
    """
    text = compact(answer)
    if len(text) <= most:
        return text
    answer = json.loads(text)
    cuts: dict[str, tuple[int, Any]] = {}
    while (excess := len(compact(answer)) + _ROOM - most) > 0:
        part = max(_parts(answer), key=lambda found: found.size, default=None)
        if part is None:
            sentence = (
                f"The answer has {len(text):,} characters, {most:,} may be, and none of its lists "
                "can be shortened enough. Ask for one part of it, or use the REST API."
            )
            return compact({"cut": [sentence], "server_time": answer["server_time"]})
        value = part.holder[part.key]
        kept = part.holder[part.key] = _shortened(value, part.size - excess)
        cuts[part.at] = (cuts.get(part.at, (len(value), None))[0], kept)
    sentences = [_sentence(at, kept, whole, most) for at, (whole, kept) in cuts.items()]
    return compact({"cut": [*answer.pop("cut", []), *sentences], **answer})


def compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _parts(value: Any, at: str = "", holder: Any = None, key: Any = None) -> Iterator[_Part]:
    """What may be shortened. The entries of a long list are parts of their own only once it has
    one entry: a list is never smaller than what is in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != "cut" or at:
                yield from _parts(inner, f"{at}.{name}" if at else name, value, name)
    elif isinstance(value, list) and len(value) > 1:
        yield _Part(at, holder, key, len(compact(value)))
    elif isinstance(value, list) and value:
        yield from _parts(value[0], f"{at}[0]", value, 0)
    elif isinstance(value, str) and len(value) > _LEAST_TEXT:
        yield _Part(at, holder, key, len(value))


def _shortened(value: Any, size: int) -> Any:
    """The beginning of a list or text, about `size` characters; never nothing."""
    if isinstance(value, str):
        return value[: max(min(size, len(value) - 1), _LEAST_TEXT)]
    used = 0
    for count, entry in enumerate(value):
        used += len(compact(entry)) + 1
        if used > size:
            return value[: max(count, 1)]
    return value[:-1]


def _sentence(at: str, kept: Any, whole: int, most: int) -> str:
    unit = "characters" if isinstance(kept, str) else "entries"
    ways = " Ask for fewer with `limit`, or narrow the list with `search`."
    return (
        f"`{at}` has the first {len(kept):,} of {whole:,} {unit}, since an answer has at most "
        f"{most:,} characters.{ways if at == 'rows' else ''}"
    )
