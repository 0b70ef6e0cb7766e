"""What settings that hold a flow back ask of its other settings."""

from __future__ import annotations

from collections.abc import Mapping

from mirrors.domain.keys.control import SCHEDULE, SKIP, UNTIL


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
    if SCHEDULE in properties and UNTIL not in properties:
        found[SCHEDULE] = [f"{SCHEDULE} needs {UNTIL}: a run that never ends is not started again."]
    elif SCHEDULE in properties and properties[UNTIL].strip() != "end":
        found[SCHEDULE] = [
            f"{SCHEDULE} needs {UNTIL}=end: every run after the first would end at once at "
            f"{properties[UNTIL].strip()}."
        ]
    return found
