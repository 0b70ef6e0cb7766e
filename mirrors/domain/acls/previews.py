"""Access rules grant rights to people: none is made by itself until somebody has seen which."""

from __future__ import annotations

from mirrors.domain.specs import FlowSettings

# How a plan that could not read the rules says so: to look at that is not to look at them.
NOT_IN_PLAN = "Access rules are not part of this plan."
NOT_SEEN = (
    "Nobody has looked yet at which access rules it would make. Read them on the tab Plan of this "
    "flow, then press Let access rules follow (or POST plan/follow/ with the plan's digest)."
)
SEEN_OTHERWISE = (
    "What somebody looked at were other access rules: {keys} changed since. Read the new plan, "
    "then press Let access rules follow again."
)
# Settings that change which rules are made, or of which names.
_SHAPE = (
    "sync.acls.scope",
    "replication.policy.class",
    "replication.policy.separator",
)


def shape_of(settings: FlowSettings) -> dict[str, str]:
    """What a look at the preview was a look at; the filters may change, people see those."""
    return {key: str(getattr(settings, key.replace(".", "_"))) for key in _SHAPE}


def waits_for_a_look(settings: FlowSettings, seen: dict[str, str] | None) -> str:
    """Why the duty may not begin yet, empty when it may; `seen` is the shape that was looked at."""
    if seen is None:
        return NOT_SEEN
    now = shape_of(settings)
    if changed := [key for key in _SHAPE if seen.get(key) != now[key]]:
        return SEEN_OTHERWISE.format(keys=" and ".join(changed))
    return ""
