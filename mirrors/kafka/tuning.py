"""Client properties in Java's names (allow-listed by the domain) turned into librdkafka's names."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.errors import InvalidSettings
from mirrors.domain.keys.client_keys import TABLES, Role, normalised, refusal


def to_librdkafka(properties: Mapping[str, str], role: Role = "cluster") -> dict[str, str]:
    """What librdkafka is given; InvalidSettings when a property has no way in.

    Checked again here, at the last door: a row or a file may have been written by other hands.
    """
    problems = {
        name: [sentence]
        for name, text in properties.items()
        if (sentence := refusal(role, name, text)) is not None
    }
    if problems:
        raise InvalidSettings(problems)
    return {
        key.librdkafka: _divided(normalised(role, name, text), key.divide)
        for name, text in properties.items()
        if (key := TABLES[role][name]).librdkafka is not None
    }


def _divided(value: str, divide: int) -> str:
    return value if divide == 1 else str(int(value) // divide)
