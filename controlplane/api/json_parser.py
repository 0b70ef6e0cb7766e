"""Parser of REST requests: only JSON that databases can store."""

from __future__ import annotations

import json
from typing import Any

from rest_framework import exceptions, status
from rest_framework.parsers import JSONParser

MAX_BODY = 1024 * 1024
MAX_DEPTH = 20


class TooLarge(exceptions.APIException):
    status_code = status.HTTP_413_REQUEST_ENTITY_TOO_LARGE
    default_code = "too_large"


class StrictJSONParser(JSONParser):
    """JSON of limited size and depth, without NUL and lone surrogates."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        raw = stream.read(MAX_BODY + 1)
        if len(raw) > MAX_BODY:
            raise TooLarge(f"The body is larger than {MAX_BODY} bytes.")
        try:
            value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
            _check(value)
        except RecursionError:
            raise exceptions.ParseError("The JSON is nested too deeply.") from None
        except ValueError as error:
            raise exceptions.ParseError(f"The body is not valid JSON: {error}.") from None
        if not isinstance(value, dict):
            raise exceptions.ParseError("The body must be a JSON object.")
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _check(value: Any, depth: int = 0) -> None:
    if depth > MAX_DEPTH:
        raise exceptions.ParseError(f"The JSON is nested deeper than {MAX_DEPTH} levels.")
    if isinstance(value, str):
        if "\x00" in value:
            raise exceptions.ParseError("A NUL character (\\u0000) is in the body; remove it.")
        value.encode("utf-8")
    elif isinstance(value, dict):
        for key, item in value.items():
            _check(key, depth + 1)
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
