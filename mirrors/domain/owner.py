"""Who took a flow over last: a row of its positions topic, beside the positions.

Who takes a flow over writes his name first and fences the slices' transactional ids then. So a
task that takes an id back sees whose the flow is, whatever its own driver still believes.
"""

from __future__ import annotations

import json

OWNER_KEY = b'{"owner":true}'


def owner_value(name: str) -> bytes:
    return json.dumps({"v": 1, "owner": name}).encode()


def read_owner(value: bytes) -> str:
    """The name; raises KeyError or ValueError for what `owner_value` did not write."""
    return str(json.loads(value)["owner"])
