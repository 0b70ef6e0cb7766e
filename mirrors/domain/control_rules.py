"""What settings that hold a flow back ask of its other settings."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.keys_of_control import SKIP


def contradictions(
    properties: Mapping[str, str], consumer: Mapping[str, str]
) -> dict[str, list[str]]:
    """Key -> sentences. Every text is valid by itself."""
    found: dict[str, list[str]] = {}
    if properties.get(SKIP, "").strip().lower() == "true":
        if properties.get("delivery", "").strip() == "at_least_once":
            found[SKIP] = [
                f"{SKIP}=true needs delivery=exactly_once: what a flow wrote is known for sure "
                "only where its records and its offset runs are committed together."
            ]
        elif consumer.get("isolation.level") == "read_uncommitted":
            found[SKIP] = [
                f"{SKIP}=true needs consumer.isolation.level=read_committed: a record that is not "
                "committed yet cannot be told from one that another flow wrote."
            ]
    return found
