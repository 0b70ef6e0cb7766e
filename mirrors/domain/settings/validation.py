"""Validation of a flow's settings, alone and together, and which of them configure a client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from mirrors.domain.settings import client_properties, failover, flow_control
from mirrors.domain.settings.table import KEYS, nearest
from mirrors.domain.settings.unsupported_mm2 import REFUSED, family
from mirrors.domain.settings.value_types import Key

# Which client a prefix tunes; of several that fit, the longest. MM2 lets a later one win.
PREFIXES: dict[str, Literal["consumer", "producer"]] = {
    "consumer.": "consumer",
    "source.consumer.": "consumer",
    "producer.": "producer",
    "target.producer.": "producer",
    "producer.override.": "producer",
}
LONGEST_VALUE = 60_000


def validate_properties(properties: Mapping[str, str]) -> dict[str, list[str]]:
    """Return sentences by key, empty if valid: unknown and rejected keys, invalid values."""
    errors = {
        name: [sentence]
        for name, text in properties.items()
        if (sentence := _refusal(name, text)) is not None
    }
    return errors or _contradictions(properties)


def tuning(properties: Mapping[str, str], role: Literal["consumer", "producer"]) -> dict[str, str]:
    """Return valid client properties without their prefix; the more precise prefix wins."""
    found: dict[str, str] = {}
    for prefix in (prefix for prefix, client in PREFIXES.items() if client == role):
        for name, text in properties.items():
            if client_prefix(name) == prefix:
                plain = name.removeprefix(prefix)
                found[plain] = client_properties.normalised(role, plain, text)
    return found


def client_prefix(name: str) -> str | None:
    """Return the prefix of a client's setting; None for the flow's own settings."""
    if name in KEYS or name in REFUSED:
        return None
    return max((prefix for prefix in PREFIXES if name.startswith(prefix)), key=len, default=None)


def _refusal(name: str, text: str) -> str | None:
    if not isinstance(text, str):
        return f"{name} must be text, not {type(text).__name__}."
    if len(text) > LONGEST_VALUE or not text.replace("\t", " ").isprintable():
        return f"{name} has more than {LONGEST_VALUE} characters, or unprintable ones."
    if (prefix := client_prefix(name)) is not None:
        return client_properties.refusal(
            PREFIXES[prefix], name.removeprefix(prefix), text, shown=name
        )
    if name in REFUSED:
        return _refused(REFUSED[name], text)
    if name in KEYS:
        try:
            KEYS[name].kind.parse(text)
        except ValueError as error:
            return f"{name} {error}."
        return None
    return _unknown(name)


def _refused(key: Key, text: str) -> str | None:
    if not key.only:
        return f"{key.name} cannot be set: {key.why}."
    if text.strip() in key.only or text.strip().lower() in key.only:
        return None
    return f"{key.name} can only be {' or '.join(key.only)}: {key.why}."


def _unknown(name: str) -> str:
    if (why := family(name)) is not None:
        return f"{name} cannot be set: {why}."
    meant = nearest(name, [*KEYS, *REFUSED])
    hint = f" Did you mean {meant}?" if meant else ""
    return f"{name[:100]} is not a setting of a flow.{hint}"


def _contradictions(properties: Mapping[str, str]) -> dict[str, list[str]]:
    consumer, producer = tuning(properties, "consumer"), tuning(properties, "producer")
    found = {
        f"{role}.{name}": [f"{role}.{name} {words}."]
        for role, values in (("consumer", consumer), ("producer", producer))
        for name, words in client_properties.contradictions(values).items()
    }
    found |= flow_control.contradictions(properties, consumer)
    found |= failover.contradictions(properties)
    start, reset = properties.get("start.from", "").strip(), consumer.get("auto.offset.reset")
    if start and reset and start != reset:
        sentence = (
            f"start.from is {start}, but consumer.auto.offset.reset is {reset}: set only one."
        )
        found["start.from"] = [sentence]
    if properties.get("emit.offset-syncs.enabled", "").strip().lower() == "false":
        # As MM2: who asks for no syncs and says how they are kept means something else.
        for name in properties:
            if name.startswith(("offset-syncs.topic.", "offset-syncs-")):
                found[name] = [f"{name} has no effect while emit.offset-syncs.enabled is false."]
    return found
